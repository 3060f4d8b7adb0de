"""``fedseg prepare`` in this process."""

import pytest
from named_options import unknown_options
from prepare_tools import tool


class Prepare:
    """Runs ``fedseg prepare NAME ARGUMENTS``; gives its output, or the message of a mistake."""

    def __init__(self, capsys):
        self.capsys = capsys

    def __call__(self, name, *arguments):
        code = tool(name, *arguments)
        out, error = self.capsys.readouterr()
        assert code == 0, error
        return out

    def fails(self, name, *arguments):
        assert tool(name, *arguments) == 2
        error = self.capsys.readouterr().err
        assert "Traceback" not in error
        assert not unknown_options(f"prepare {name}", error), error
        return error[error.index("error: ") :]


@pytest.fixture
def prepare(capsys):
    return Prepare(capsys)
