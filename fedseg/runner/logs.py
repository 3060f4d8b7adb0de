"""The part of a run's log that reaches the terminal, and Python's warnings in the log."""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from logging import FileHandler, Logger

from mmengine.logging import MessageHub, MMLogger
from mmengine.registry import DefaultScope
from mmengine.visualization import Visualizer


def quiet_console(logger: Logger, level: str) -> None:
    """Show on the terminal only what is of a level (for ``INFO``: warnings); files keep all."""
    for handler in logger.handlers:
        handler.handleError = lambda record: None  # a full disk is told once, by the run
        if not hasattr(handler, "baseFilename"):
            handler.setLevel("WARNING" if level == "INFO" else level)
            # MMEngine says it of every metric
            handler.addFilter(lambda record: "The prefix is not set" not in record.getMessage())


@contextmanager
def closing_log(logger: MMLogger) -> Iterator[None]:
    """At the end close a run's log file, which a later line opens again, and its name in MMEngine.

    Else every run of a process would keep a descriptor and what MMEngine has under its name.
    """
    try:
        yield
    finally:
        for handler in logger.handlers:
            if isinstance(handler, FileHandler):
                handler.mode = "a"
                handler.close()
        for kind in (MMLogger, MessageHub, DefaultScope, Visualizer, *Visualizer.__subclasses__()):
            kind._instance_dict.pop(logger.instance_name, None)  # MMEngine has no public way


@contextmanager
def logged_warnings(logger: Logger) -> Iterator[None]:
    """Python's warnings inside go to the log, and to a terminal that is not muted."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
    finally:
        for warning in caught:
            logger.warning(str(warning.message))
