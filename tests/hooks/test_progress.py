"""What a run shows while it goes on: on a terminal, in a log, and when it is to be quiet."""

import fcntl
import io
import multiprocessing
import os
import pty
import re
import signal
import struct
import sys
import termios
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
import toyseg
from rich.console import Console

from fedseg.commands.main import main
from fedseg.core.hook import FederatedHook
from fedseg.core.messages import Exchange
from fedseg.errors import ConfigError, Interrupted
from fedseg.hooks.progress import ProgressHook, Screen
from fedseg.registry import HOOKS
from fedseg.runner.work_dir import MARK
from fedseg.units import format_duration

SHOW, HIDE = "\x1b[?25h", "\x1b[?25l"  # the cursor
STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
ROUND, PREDICTION = 30.0, 0.5  # seconds


def predictions(round_: int) -> int:
    """Of the evaluation after a round: every ten rounds; the last one has a test set of its own."""
    return 100 if round_ == 40 else 20


class Run:
    """A run of 40 rounds of four clients on a clock of its own, which feeds a progress hook."""

    quiet = False
    max_rounds = 40
    seconds = 90.0

    def __init__(self, width: int = 120, history=(), **options) -> None:
        self.round, self.time = len(history), 0.0
        self.logger = SimpleNamespace(handlers=[], info=lambda line: self.logged.append(line))
        self.logged: list[str] = []
        self.history = SimpleNamespace(read=lambda: list(history))
        self.train_loop = SimpleNamespace(evaluates=lambda r: r % 10 == 0, pending=None)
        self.val_loop = SimpleNamespace(num_predictions=predictions)
        self.client_sampler = SimpleNamespace(participants=lambda r: [0, 1, 2, 3])
        self.algorithm = SimpleNamespace(exchanges=(Exchange(),))
        self.flat = SimpleNamespace(w=torch.zeros(1))
        self.hook = ProgressHook(**{"seconds": 1e9, **options})
        self.hook.console = Console(file=io.StringIO(), width=width)
        self.hook.now = lambda: self.time
        self.hook.before_train(self)

    def train(self, clients: int = 4, step: int = 0) -> None:
        """A round; with fewer clients it remains unfinished, in a client's step (of 10)."""
        self.round += 1
        self.hook.before_round(self)
        for _ in range(clients):
            self.time += ROUND / 4
            result = SimpleNamespace(task=SimpleNamespace(exchange=0), loss=0.75)
            self.hook.after_result(self, result)
        if step:
            self.time += ROUND / 4 * step / 10
            self.hook.after_local_steps(self, SimpleNamespace(step=step, num_steps=10))
        if clients == 4:
            self.train_loop.pending = {"round": self.round, "lr": 0.05, "loss": 0.5321}
            self.hook.after_round(self, self.train_loop.pending)

    def evaluate(self, images: int | None = None, name: str = "unseen", **metrics) -> None:
        """The evaluation after a round; with a number of images it remains unfinished."""
        self.hook.before_val(self)
        made = predictions(self.round) if images is None else images
        self.time += made * PREDICTION
        self.hook.after_val_batch(self, name, made)
        if images is None:
            self.hook.after_val_epoch(self, metrics)

    def go_to(self, round_: int) -> None:
        """Finish rounds, with their evaluations."""
        while self.round < round_:
            self.train()
            if self.round % 10 == 0:
                self.evaluate(**{"a/mIoU": 1.0})
            self.hook.after_train_epoch(self)

    def left(self) -> str | None:
        found = re.search(r"\d:\d\d:\d\d left( plus evaluations)?", self.line())
        return found and found[0]

    def line(self) -> str:
        """What a log is shown now."""
        file = self.hook.console.file = io.StringIO()
        self.hook._print()
        return file.getvalue()

    def panel(self) -> list[str]:
        """What a terminal is shown now, without styles."""
        file = io.StringIO()
        Console(file=file, force_terminal=True, width=self.hook.console.width).print(
            self.hook.panel()
        )
        return STYLE.sub("", file.getvalue()).splitlines()


def clock(seconds: float) -> str:
    return f"{format_duration(seconds)} left"


# ---------------------------------------------------------------- the time left


def test_the_time_left_is_exact_where_rounds_and_evaluations_cost_what_they_did():
    run = Run()
    assert run.left() is None
    for done in range(1, 40):
        run.go_to(done)
        rounds = ROUND * (40 - done)
        coming = sum(PREDICTION * predictions(r) for r in range(done + 1, 41) if r % 10 == 0)
        expected = clock(rounds + coming) if done >= 10 else clock(rounds) + " plus evaluations"
        assert run.left() == expected, done
    run.go_to(40)
    assert run.left() is None


def test_at_first_the_pace_of_the_work_in_progress_counts():
    run = Run()
    run.train(clients=1, step=5)
    assert run.left() == clock(39.625 * ROUND) + " plus evaluations"
    run = Run()
    run.go_to(9)
    run.train()
    run.evaluate(images=5)
    # 15 of this evaluation, then 20, 20 and 100
    assert run.left() == clock(30 * ROUND + 155 * PREDICTION)
    run = Run()
    run.go_to(39)
    run.train()
    run.evaluate(images=50)
    assert run.left() == clock(50 * PREDICTION)


# ---------------------------------------------------------------- one state


def test_a_line_and_three_lines_say_the_same():
    run = Run()
    run.go_to(10)
    run.train(clients=2, step=3)
    for metrics in ({"a/mIoU": 46.1, "loss": 1.0}, {"a/mIoU": 45.2, "b/mIoU": None}):
        run.hook.after_val_epoch(run, metrics)
    text = run.line()
    top, results, details = (line.rstrip() for line in run.panel())
    for part in ("round 11/40", "0:01:30 elapsed"):
        assert part in text and part in top
    for part in ("loss 0.532", "a/mIoU 45.20 (best 46.10)", "b/mIoU -"):
        assert part in text and part in results
    for part in ("clients 2/4, step 3/10", "memory "):
        assert part in text and part in details
    assert "━" in top and " 26 %" in top and run.left() in top
    run.train()
    run.evaluate(images=5)
    top, _, bar = run.panel()
    assert re.match(r"evaluating unseen 5/20 images ━+", bar)


# ---------------------------------------------------------------- the log file


def test_the_log_has_a_line_for_every_evaluation_as_mmengine_writes_it(monkeypatch):
    monkeypatch.setattr(ProgressHook, "_peaks", lambda self: {"memory": "1.5 GiB"})
    run = Run()
    run.go_to(9)
    run.train()
    run.evaluate(**{"a/mIoU": 46.125, "a/mIoU_worst10": 1.0, "b/mIoU": None})
    left = format_duration(30 * ROUND + 140 * PREDICTION)
    line = "Round(val) [10/40]  lr: 5.0000e-02  eta: {}  memory: 1.5 GiB  loss: 0.5321  {}"
    assert run.logged == [line.format(left, "a/mIoU: 46.1250  b/mIoU: -")]
    run.go_to(39)
    run.train()
    run.evaluate(**{"a/mIoU": 50.0})
    assert run.logged[-1].startswith("Round(val) [40/40]  lr: 5.0000e-02  eta: 0:00:00  ")
    assert len(run.logged) == 4


def test_before_the_first_round_the_log_has_the_metrics_alone(monkeypatch):
    monkeypatch.setattr(ProgressHook, "_peaks", lambda self: {})
    run = Run()
    run.hook.after_val_epoch(run, {"a/mIoU": 3.0})
    assert run.logged == ["Round(val) [0/40]  a/mIoU: 3.0000"]


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
    hooks = {"progress": {"type": "ProgressHook", "metric": "accuracy", **dict(hook)}}
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


def test_without_a_terminal_the_first_round_and_every_evaluation_is_a_line(tmp_path):
    runner, progress = build(tmp_path, plain_console(), hook={"seconds": 1e9})
    runner.train()
    first, *lines = shown(progress.console)
    assert first.startswith("round 1/6  ") and "loss" in first and " left" in first
    assert [text.split("  ")[0] for text in lines] == ["round 3/6", "round 6/6"]
    records = {r["round"]: r for r in toyseg.history({"work_dir": runner.work_dir})}
    for text, record in zip(lines, (records[3], records[6]), strict=True):
        assert f"loss {record['loss']:.3f}" in text
        for name, value in record["metrics"].items():
            if name.endswith("accuracy"):
                assert f"{name} {value:.2f}" in text
    assert " left" in lines[0] and " left" not in lines[1]


def test_on_a_terminal_lines_are_redrawn_and_messages_stand_above(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    hooks = [{"type": "Talk"}]
    runner, progress = build(tmp_path, console, custom_hooks=hooks, log_level="WARNING")
    before = sys.stdout, sys.stderr, runner.logger.handlers[0].stream
    drawn = []
    last_batch = progress.after_val_batch

    def draw_too(runner, prefix, samples):
        last_batch(runner, prefix, samples)
        progress._screen.refresh()
        drawn.append(prefix)

    progress.after_val_batch = draw_too
    runner.train()
    text = console.file.getvalue()
    assert text.startswith(HIDE) and text.count(HIDE) == text.count(SHOW) == 1
    plain = STYLE.sub("", text)
    assert "said on standard error\n" in plain
    assert re.search(r"evaluating unseen \d+/71 images ━", plain)
    assert re.search(r"evaluating seen_by_domain \d+/71 images ━", plain)
    assert set(drawn) == {"unseen", "seen", "seen_by_domain"}
    rounds, figures, memory = plain.rstrip("\n").splitlines()[-3:]
    assert rounds.startswith("round 6/6 ━") and "100 %" in rounds and "left" not in rounds
    assert figures.startswith("loss ") and "unseen/accuracy " in figures
    assert memory.startswith("memory ")
    assert before == (sys.stdout, sys.stderr, runner.logger.handlers[0].stream)


def test_the_planned_predictions_are_those_that_are_made(tmp_path):
    """The bar of an evaluation ends full, with statistics by domain and two models too."""
    runner, progress = build(tmp_path, plain_console(), val_cfg={"evaluate_global": True})
    ends = []
    inner = progress.after_val_epoch

    def look(runner, metrics):
        ends.append((progress._predicted, progress._to_predict))
        inner(runner, metrics)

    progress.after_val_epoch = look
    runner.train()
    assert len(ends) == 2 and all(made == planned > 0 for made, planned in ends)


def test_a_resumed_run_knows_its_pace_and_its_best_metrics(tmp_path):
    short = {"train_cfg": {"max_rounds": 3}, "averaging": {"start": 3}}
    first, _ = build(tmp_path, plain_console(), **short)
    first.train()
    done = {"work_dir": first.work_dir}
    records = [{**record, "seconds": SECONDS} for record in toyseg.history(done)]
    records[0]["metrics"] = {"unseen/accuracy": 99.5}
    toyseg.rewrite_history(done, records)

    runner, progress = build(tmp_path, plain_console(), resume=True)
    progress.now = lambda: 0.0  # nothing is learned from this process
    inner = progress.before_round

    def look(runner):
        inner(runner)
        progress._print()

    progress.before_round = look
    runner.train()
    assert runner.val_loop.num_predictions(6) == runner.val_loop.num_predictions(3)
    text = shown(progress.console)[1]  # after that it resumes
    # 3 rounds of 10 s; the last evaluation costs what the one after round 3 did
    assert text.startswith("round 4/6") and clock(3 * 10 + 7) in text
    assert re.search(r"unseen/accuracy \d\d\.\d\d \(best 99\.50\)", text)


SECONDS = {"train": 8.0, "aggregate": 2.0, "evaluate": 7.0, "data_wait": 1.0}


def test_an_error_before_the_first_round_leaves_the_terminal_in_order(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    runner, _ = build(tmp_path, console, custom_hooks=[{"type": "Talk", "stop": "break"}])
    streams = sys.stdout, sys.stderr
    with pytest.raises(ConfigError, match="broken"):
        runner.train()
    assert console.file.getvalue().rstrip().endswith(SHOW)
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
        with pytest.raises(Interrupted, match="rounds 1 to 2"):
            runner.train()
        assert progress.console.is_interactive
    text = b"".join(arrived).decode()
    assert text.count(HIDE) == text.count(SHOW) == 1
    last = STYLE.sub("", text.rpartition("\x1b[2K")[2]).replace("\r\n", "\n")
    assert last.startswith("round 3/6 ━") and "clients 0/3" in last and last.endswith("\n")
    # each message is a line of its own, not a part of what is redrawn
    lines = [STYLE.sub("", part) for part in re.split("\r\n|\r", text)]
    assert "said on standard error" in lines
    assert any(re.match(r"\d\d/\d\d .* WARNING - said by the log$", text) for text in lines)
    assert any(text.startswith("stopping") for text in lines)


def test_a_process_forked_while_the_screen_draws_can_write(capfd):
    """The drawing thread's lock is held in the parent, and nobody releases it in the child."""
    run = Run()
    run.hook.console = console = Console(file=io.StringIO(), force_terminal=True, width=80)
    screen = Screen(run.hook, [])
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with console._lock, screen._lock:
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


def test_colors_that_are_forced_do_not_make_a_log_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Console(stderr=True).is_interactive and not ProgressHook().console.is_interactive


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
    (tmp_path / "run" / MARK).write_text('{"made": ["history.jsonl"]}')
    monkeypatch.setattr(sys, "argv", ["fedseg", "train", str(path), "--quiet"])
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main() == 0
    out, err = capsys.readouterr()
    assert err == "said on standard error\n"  # the hook's own words, not ours
    assert "unseen" in out and "history.jsonl" in out and "WARNING" not in out
    log = next((tmp_path / "run").rglob("*.log")).read_text()
    evaluated = re.findall(
        r"- INFO - Round\(val\) \[(\d)/2\]  lr: .* eta: .* loss: .* unseen/accuracy: ", log
    )
    assert evaluated == ["1", "2"]
    assert "said by the log" in log and str(tmp_path / "run" / "previous") in log
    assert "SCAFFOLD divides" in log
