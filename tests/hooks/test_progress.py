"""What a run shows while it goes on: on a terminal, in a log, and when it is to be quiet."""

import fcntl
import io
import multiprocessing
import os
import pty
import re
import runpy
import signal
import struct
import sys
import termios
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import toyseg
from rich.console import Console

from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError, Interrupted
from fedseg.hooks.progress import ProgressHook
from fedseg.hooks.progress_display import Figure, Screen, Status, line, panel
from fedseg.registry import HOOKS

ROOT = Path(__file__).parents[2]
SHOW, HIDE = "\x1b[?25h", "\x1b[?25l"  # the cursor
STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def status(**changes) -> Status:
    """A run in its fifth round."""
    figures = {"unseen/mIoU": Figure(45.2, 46.1), "seen/mIoU": Figure(52.1, 52.1)}
    own = {
        "rounds": 20,
        "round": 5,
        "done": 4.5,
        "clients": 4,
        "clients_done": 2,
        "loss": 0.5321,
        "figures": figures,
        "gone": 90.0,
        "left": 3725.0,
        "memory": 3 * 2**29,
    }
    return Status(**{**own, **changes})


def rendered(state: Status, width: int = 120) -> list[str]:
    """The panel's lines on a terminal, without styles."""
    file = io.StringIO()
    Console(file=file, force_terminal=True, width=width).print(panel(state))
    return STYLE.sub("", file.getvalue()).splitlines()


# ---------------------------------------------------------------- one state


def test_a_line_of_text():
    assert line(status()) == (
        "round 5/20  clients 2/4  loss 0.532  unseen/mIoU 45.20 (best 46.10)  seen/mIoU 52.10  "
        "left 1:02:05  memory 1.5 GiB"
    )
    evaluated = status(clients=None, evaluating="unseen", predicted=20, predictions=460)
    assert line(evaluated).startswith("round 5/20  evaluating unseen 20/460 images  loss")
    assert line(status(left_is_all=False)).split("  ")[-2] == "left 1:02:05 and evaluations"
    assert "left" not in line(status(round=20, done=20.0, clients=None))
    assert line(Status(rounds=3)) == "round 0/3  left -"


def test_three_lines_on_a_terminal():
    rounds, figures, details = rendered(status(step=50, steps=200, gpu_memory=2**30))
    assert rounds.startswith("round 5/20 ━") and rounds.rstrip().endswith(
        " 22 % 0:01:30, left 1:02:05"
    )
    assert figures.strip() == "loss 0.532  unseen/mIoU 45.20 (best 46.10)  seen/mIoU 52.10"
    assert details.strip() == "clients 2/4, step 50/200  memory 1.5 GiB  GPU 1.0 GiB"


def test_an_evaluation_has_a_bar_of_its_own():
    state = status(clients=None, done=5.0, evaluating="corrupted", predicted=230, predictions=460)
    bar = rendered(state)[2]
    assert bar.startswith("evaluating corrupted ━") and bar.rstrip().endswith("230/460 images")
    assert (
        rendered(status(rounds=5, done=5.0, clients=None, evaluating="x"))[0]
        .rstrip()
        .endswith("100 % 0:01:30, left 1:02:05")
    )


def test_a_finished_run_has_no_time_left():
    rounds, _, details = rendered(status(round=20, done=20.0, clients=None))
    assert rounds.rstrip().endswith("100 % 0:01:30") and details.strip() == "memory 1.5 GiB"


@pytest.mark.parametrize("width", [200, 60, 30, 12])
@pytest.mark.parametrize("evaluating", [None, "unseen_by_domain"])
def test_a_narrow_terminal_cuts_lines_and_adds_none(width, evaluating):
    lines = rendered(status(evaluating=evaluating, predicted=3, predictions=10), width)
    assert len(lines) == 3 and all(len(text) <= width for text in lines)


def test_names_are_text_not_markup():
    state = status(figures={"[red]x/mIoU": Figure(1.0, 1.0)}, evaluating="[bold]y")
    assert "[red]x/mIoU 1.00" in rendered(state)[1]
    assert "[bold]y" in rendered(state)[2]


def test_few_figures_are_shown_those_of_the_evaluated_model_first():
    names = ["global:a/mIoU", "a/mIoU", "b/mIoU", "c/mIoU", "d/mIoU"]
    text = line(status(figures={name: Figure(1.0, 1.0) for name in names}))
    assert "a/mIoU 1.00  b/mIoU 1.00  c/mIoU 1.00  d/mIoU 1.00  and 1 more" in text
    assert "global:" not in text


def test_the_best_of_a_figure():
    figure = Figure()
    for value in (40.0, 50.0, float("nan"), None, 45.0):
        figure.add(value)
    assert (figure.value, figure.best) == (45.0, 50.0)


# ---------------------------------------------------------------- runs


@HOOKS.register_module(force=True)
class Talk(FederatedHook):
    """Speaks on every channel in the second round; may stop the run there, or break it before."""

    priority = "VERY_LOW"

    def __init__(self, stop: str | None = None) -> None:
        self.stop = stop

    def before_train(self, runner):
        if self.stop == "break":
            raise ConfigError("broken")

    def after_round(self, runner, record):
        if runner.round == 2:
            print("said on standard error", file=sys.stderr)
            runner.logger.warning("said by the log")
            if self.stop == "signal":
                os.kill(os.getpid(), signal.SIGINT)


def build(folder, console=None, resume=False, hook=(), **changes):
    """A runner of the toy and its progress hook, which writes to ``console``."""
    hooks = {"progress": {"type": "ProgressHook", "figure": "accuracy", **dict(hook)}}
    config = toyseg.settings(folder, default_hooks=hooks, **changes)
    config["val_evaluator"] = {"type": "PixelAccuracy"}
    runner = toyseg.runner(config, resume)
    progress = next(h for h in runner.hooks if isinstance(h, ProgressHook))
    if console is not None:
        progress.console = console
    return runner, progress


def plain_console() -> Console:
    return Console(file=io.StringIO(), width=200)


def shown(console: Console) -> list[str]:
    return console.file.getvalue().splitlines()


def test_without_a_terminal_every_evaluation_is_a_line(tmp_path):
    runner, _ = build(tmp_path, plain_console(), hook={"seconds": 1e9})
    console = next(h for h in runner.hooks if isinstance(h, ProgressHook)).console
    runner.train()
    lines = shown(console)
    assert [text.split("  ")[0] for text in lines] == ["round 3/6", "round 6/6"]
    records = {r["round"]: r for r in toyseg.history({"work_dir": runner.work_dir})}
    for text, record in zip(lines, (records[3], records[6]), strict=True):
        assert f"loss {record['loss']:.3f}" in text
        for name, value in record["metrics"].items():
            if name.endswith("accuracy"):
                assert f"{name} {value:.2f}" in text
    assert "left 0:" in lines[0] and "left" not in lines[1] and "memory" in lines[1]


def test_between_evaluations_there_is_a_line_every_few_seconds(tmp_path):
    runner, progress = build(tmp_path, plain_console(), hook={"seconds": 10})
    times = iter(range(10**6))
    progress.now = lambda: 4.0 * next(times)  # every look at the clock finds it 4 s later
    runner.train()
    lines = shown(progress.console)
    assert any(re.search(r"round 1/6  clients [123]/3  loss .*left 0:", text) for text in lines)
    assert any("evaluating seen_by_domain " in text for text in lines)
    assert all("  left 0:" in text for text in lines[:-1]) and "left" not in lines[-1]


def test_on_a_terminal_lines_are_redrawn_and_messages_stand_above(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    hooks = [{"type": "Talk"}]
    runner, progress = build(tmp_path, console, custom_hooks=hooks, log_level="WARNING")
    before = sys.stdout, sys.stderr, [h.stream for h in runner.logger.handlers]
    drawn = []
    last_batch = progress.after_val_batch

    def draw_too(runner, figures, samples):
        last_batch(runner, figures, samples)
        progress._screen.refresh()
        drawn.append(figures)

    progress.after_val_batch = draw_too
    runner.train()
    text = console.file.getvalue()
    assert text.startswith(HIDE) and text.count(HIDE) == text.count(SHOW) == 1
    plain = STYLE.sub("", text)
    assert "said on standard error\n" in plain
    assert "evaluating unseen ━" in plain and "evaluating seen_by_domain ━" in plain
    assert set(drawn) == {"unseen", "seen", "seen_by_domain"}
    rounds, figures, memory = plain.rstrip("\n").splitlines()[-3:]
    assert rounds.startswith("round 6/6 ━") and "100 %" in rounds and "left" not in rounds
    assert figures.startswith("loss ") and "unseen/accuracy " in figures
    assert memory.startswith("memory ")
    assert before == (sys.stdout, sys.stderr, [h.stream for h in runner.logger.handlers])


def test_the_planned_predictions_are_those_that_are_made(tmp_path):
    """The bar of an evaluation ends full, with statistics by domain and two models too."""
    console = plain_console()
    runner, progress = build(tmp_path, console, val_cfg={"evaluate_global": True})
    ends = []
    inner = progress.after_val_epoch

    def look(runner, metrics):
        ends.append((progress.status.predicted, progress.status.predictions))
        inner(runner, metrics)

    progress.after_val_epoch = look
    runner.train()
    assert len(ends) == 2 and all(made == planned > 0 for made, planned in ends)


def test_a_resumed_run_knows_its_pace_and_its_best_figures(tmp_path):
    first, _ = build(tmp_path, plain_console(), train_cfg={"max_rounds": 3})
    first.train()
    path = Path(first.work_dir) / "history.jsonl"
    metrics = toyseg.history({"work_dir": first.work_dir})[-1]["metrics"]
    text = re.sub(r'"seconds": \{[^}]*\}', '"seconds": ' + SECONDS, path.read_text())
    path.write_text(text)

    runner, progress = build(tmp_path, plain_console(), resume=True, hook={"seconds": 0})
    progress.now = lambda: 0.0  # nothing is learnt from this process
    seen = []
    inner = progress.before_round

    def look(runner):
        inner(runner)
        state = progress._current()
        best = {name: figure.best for name, figure in state.figures.items()}
        seen.append((runner.round, state.left, state.left_is_all, best))

    progress.before_round = look
    runner.train()
    assert shown(progress.console)[0] == "going on after round 3"
    round_, left, complete, best = seen[0]
    predictions = runner.val_loop.num_predictions(6)
    # 3 rounds of 10 s; the last evaluation costs what the one after round 3 did
    assert round_ == 4 and complete and left == pytest.approx(3 * 10 + 7)
    assert predictions == runner.val_loop.num_predictions(3)
    assert best == {n: v for n, v in metrics.items() if n.endswith("accuracy")}


SECONDS = '{"train": 8.0, "aggregate": 2.0, "evaluate": 7.0, "data_wait": 1.0}'


def test_a_run_resumed_after_its_last_round_shows_its_evaluation(tmp_path):
    build(tmp_path, plain_console())[0].train()
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    runner, progress = build(tmp_path, console, resume=True)
    runner.train()
    text = console.file.getvalue()
    assert text.count(HIDE) == text.count(SHOW) == 2 and progress.status is None
    assert "round 6/6" in STYLE.sub("", text.rpartition(HIDE)[2])


def test_showing_changes_no_bit(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    watched, _ = build(tmp_path / "a", console)
    watched.train()
    hidden = toyseg.train(toyseg.settings(tmp_path / "b"))
    one, two = (toyseg.checkpoint({**toyseg.settings(tmp_path / name)}) for name in ("a", "b"))
    for key in ("state_dict", "averaged_state_dict"):
        assert toyseg.differences(one[key], two[key]) == []
    lines = [
        [{**r, "seconds": None} for r in toyseg.history({"work_dir": run.work_dir})]
        for run in (watched, hidden)
    ]
    assert toyseg.differences(*lines) == []


def test_an_error_before_the_first_round_leaves_the_terminal_in_order(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    runner, progress = build(tmp_path, console, custom_hooks=[{"type": "Talk", "stop": "break"}])
    streams = sys.stdout, sys.stderr
    with pytest.raises(ConfigError, match="broken"):
        runner.train()
    assert console.file.getvalue().rstrip().endswith(SHOW) and progress.status is None
    assert (sys.stdout, sys.stderr) == streams


@contextmanager
def terminal(monkeypatch, columns=100):
    """Standard output and error on a pseudo terminal; yields what arrives there, in a list."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    arrived: list[bytes] = []

    def read() -> None:
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            arrived.append(data)

    thread = threading.Thread(target=read)
    thread.start()
    with os.fdopen(theirs, "w") as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", file)
        patch.setattr(sys, "stderr", file)
        yield arrived
    thread.join()
    os.close(ours)


def test_ctrl_c_on_a_terminal(tmp_path, monkeypatch):
    hooks = [{"type": "Talk", "stop": "signal"}]
    with terminal(monkeypatch) as arrived:
        runner, progress = build(tmp_path, custom_hooks=hooks, log_level="WARNING")
        with pytest.raises(Interrupted, match="rounds 1 to 2 are saved"):
            runner.train()
        assert progress.console.is_interactive
    text = b"".join(arrived).decode()
    assert text.count(HIDE) == text.count(SHOW) == 1
    last = STYLE.sub("", text.rpartition("\x1b[2K")[2]).replace("\r\n", "\n")
    assert last.startswith("round 3/6 ━") and "clients 0/3" in last and last.endswith("\n")
    # each message is a line of its own, not a part of what is redrawn
    lines = [STYLE.sub("", part) for part in re.split("\r\n|\r", text)]
    assert "said on standard error" in lines
    assert any(t.endswith("said by the log") and "WARNING" in t for t in lines)
    assert "stopping at the next safe point (Ctrl-C again: at once)" in lines


def test_a_process_forked_while_the_screen_draws_can_write(tmp_path, capfd):
    """The drawing thread's lock is held in the parent, and nobody releases it in the child."""
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    runner, _ = build(tmp_path)
    screen = Screen(console, status, runner.logger)
    screen.start()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with console._lock, screen._live._lock:
            held.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = multiprocessing.get_context("fork").Process(target=_write)
    child.start()
    child.join(30)
    code = child.exitcode
    done.set()
    holder.join()
    child.kill()
    screen.stop()
    assert code == 0


def _write() -> None:
    print("from a loader process", file=sys.stderr)
    print("from a loader process", file=sys.stdout)


def test_colours_that_are_forced_do_not_make_a_log_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Console(stderr=True).is_interactive and not ProgressHook().console.is_interactive


def test_an_evaluation_by_itself_shows_nothing(tmp_path):
    runner, progress = build(tmp_path, plain_console())
    runner.build_federation()
    assert runner.val_loop.run() and shown(progress.console) == []


@pytest.mark.parametrize("value", [-1, "soon", True])
def test_a_wrong_interval_is_told(value):
    with pytest.raises(ConfigError, match=r"default_hooks\.progress\.seconds"):
        ProgressHook(seconds=value)


# ---------------------------------------------------------------- quiet


def test_quiet_shows_only_the_final_table(tmp_path, monkeypatch, capsys):
    config = toyseg.settings(
        tmp_path,
        default_hooks={"progress": {"type": "ProgressHook"}},
        custom_hooks=[{"type": "Talk"}],
        log_level="INFO",
        train_cfg={"max_rounds": 2, "val_interval": 1},
        algorithm={"_delete_": True, "type": "SCAFFOLD"},
        optim_wrapper={"optimizer": {"momentum": 0.5}},  # SCAFFOLD warns of it
    )
    path = toyseg.write_config(tmp_path / "toy.py", config)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "history.jsonl").write_text("")  # an earlier run: a warning
    monkeypatch.setattr(sys, "argv", ["train.py", str(path), "--quiet"])
    monkeypatch.syspath_prepend(str(tmp_path))
    tool = runpy.run_path(str(ROOT / "tools" / "train.py"))
    assert tool["main"]() == 0
    out, err = capsys.readouterr()
    assert err == "said on standard error\n"  # the hook's own words, not ours
    assert "unseen" in out and "history.jsonl" in out and "WARNING" not in out
    log = next((tmp_path / "run").rglob("*.log")).read_text()
    assert "said by the log" in log and "was moved to" in log
    assert "SCAFFOLD divides by K_k eta" in log
