"""What a run shows while it goes on: on a terminal, in a log, and when it is to be quiet."""

import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
import threading
from contextlib import contextmanager

import pytest
import toyseg
from rich.console import Console

from fedseg.commands.main import main
from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError, Interrupted
from fedseg.registry import HOOKS
from fedseg.runner.progress import ProgressHook

SHOW, HIDE = "\x1b[?25h", "\x1b[?25l"  # the cursor
STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


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


def build(folder, **changes):
    """A runner of the toy that shows its progress."""
    hooks = {"progress": {"type": "ProgressHook", "metric": "accuracy"}}
    config = toyseg.settings(folder, default_hooks=hooks, **changes)
    config["val_evaluator"] = {"type": "PixelAccuracy"}
    return toyseg.runner(config)


def test_without_a_terminal_every_evaluation_is_the_line_of_the_log(tmp_path, capsys):
    runner = build(tmp_path)
    runner.train()
    lines = capsys.readouterr().err.splitlines()
    log = next((tmp_path / "run").rglob("*.log")).read_text()
    assert len(lines) == 2 and all(line in log for line in lines)
    assert re.match(r"Round\(val\) \[3/6\]  lr: .*  eta: \d:\d\d:\d\d  memory: ", lines[0])
    assert re.match(r"Round\(val\) \[6/6\]  lr: .*  eta: 0:00:00  memory: ", lines[1])
    records = {record["round"]: record for record in toyseg.history({"work_dir": runner.work_dir})}
    for line, record in zip(lines, (records[3], records[6]), strict=True):
        assert f"  loss: {record['loss']:.4f}  " in line
        assert f"  unseen/accuracy: {record['metrics']['unseen/accuracy']:.4f}" in line


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


def test_on_a_terminal_bars_are_redrawn_and_messages_stand_above(tmp_path, monkeypatch):
    monkeypatch.setattr("fedseg.runner.progress.REDRAWN", 0.0)
    with terminal(monkeypatch) as arrived:
        runner = build(tmp_path, custom_hooks=[{"type": "Talk"}], log_level="WARNING")
        before = sys.stdout, sys.stderr, runner.logger.handlers[0].stream
        runner.train()
        assert before == (sys.stdout, sys.stderr, runner.logger.handlers[0].stream)
    text = b"".join(arrived).decode()
    assert text.count(HIDE) == text.count(SHOW) == 1
    plain = STYLE.sub("", text)
    assert re.search(r"evaluating unseen +.* \d+/71 ", plain)
    rounds, work, results = re.split(r"[\r\n]+", plain.strip())[-3:]
    assert re.match(r"rounds .* 6/6 ", rounds) and re.match(r"evaluating .* 71/71 ", work)
    assert re.match(r"loss \d\.\d+  .*unseen/accuracy \d+", results)


def test_an_error_before_the_first_round_leaves_the_terminal_in_order(tmp_path, monkeypatch):
    with terminal(monkeypatch) as arrived:
        runner = build(tmp_path, custom_hooks=[{"type": "Talk", "stop": "break"}])
        streams = sys.stdout, sys.stderr
        with pytest.raises(ConfigError, match="broken"):
            runner.train()
        assert (sys.stdout, sys.stderr) == streams
    text = b"".join(arrived).decode()
    assert text.count(HIDE) == text.count(SHOW) == 1


def test_ctrl_c_leaves_the_terminal_in_order(tmp_path, monkeypatch):
    hooks = [{"type": "Talk", "stop": "signal"}]
    with terminal(monkeypatch) as arrived:
        runner = build(tmp_path, custom_hooks=hooks, log_level="WARNING")
        with pytest.raises(Interrupted, match="rounds 1 to 2"):
            runner.train()
    text = b"".join(arrived).decode()
    assert text.count(HIDE) == text.count(SHOW) == 1 and text.endswith(SHOW)
    # each message is a line of its own, not a part of what is redrawn
    lines = [STYLE.sub("", part) for part in re.split("\r\n|\r", text)]
    assert "said on standard error" in lines
    assert any(re.match(r"\d\d/\d\d .* WARNING - said by the log$", text) for text in lines)
    assert any(text.startswith("stopping") for text in lines)


def test_colors_that_are_forced_do_not_make_a_log_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Console(stderr=True).is_interactive and not ProgressHook().console.is_interactive


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
    monkeypatch.setattr(sys, "argv", ["fedseg", "train", str(path), "--quiet"])
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main() == 0
    out, err = capsys.readouterr()
    assert err == "said on standard error\n"  # the hook's own words, not ours
    assert "unseen" in out and "fedseg test" in out and "WARNING" not in out
    log = next((tmp_path / "run").rglob("*.log")).read_text()
    evaluated = re.findall(
        r"- INFO - Round\(val\) \[(\d)/2\]  lr: .* loss: .* unseen/accuracy: ", log
    )
    assert evaluated == ["1", "2"]
    assert "said by the log" in log
    assert "SCAFFOLD divides" in log
