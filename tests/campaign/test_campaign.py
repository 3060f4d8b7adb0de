"""A small sample of both campaigns, and that their judge sees what it must see."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from command_line import ROOT

from tests.campaign.cases import KINDS, Case, draw
from tests.campaign.damage import CANARY, Damage
from tests.campaign.judge import CLEAR, EXECUTED, SILENT, UNCLEAR, Judge
from tests.campaign.kills import draw_runs, kill_and_resume
from tests.campaign.sound import COMMANDS

SEED = 0


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(tmp_path_factory.mktemp("campaign"))


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_inputs(judge, kind):
    for case in draw(kind, SEED, judge.template, 2):
        verdict = judge(case)
        assert verdict.judged == CLEAR, f"{verdict.why}: {case}\n{verdict.said}"


def _config(text: str) -> Damage:
    return Damage(text, lambda path: path.write_text(path.read_text() + text))


@pytest.mark.parametrize(
    ("damage", "judged"),
    [
        (Damage("a comment", lambda path: path.write_text(path.read_text() + "# x\n")), CLEAR),
        (_config("optim_wrapper['rho'] = 0.3\n"), SILENT),
        (_config(f"import os; os.mkdir({CANARY!r}); del os\n"), EXECUTED),
        (_config("import os; os.abort()\n"), UNCLEAR),
    ],
)
def test_the_judge_sees(judge, damage, judged):
    """A config of a user's own may do all this; the judge tells what it did."""
    assert judge(Case("config-x", "train", "config.py", damage)).judged == judged


def test_every_command_is_there():
    programs = {command.line.split()[0] for command in COMMANDS.values()}
    tools = {path.name for path in (ROOT / "tools").glob("*.py")}
    assert programs <= {"fedseg", *tools}


def test_killed_runs(tmp_path):
    runs = draw_runs(SEED)[:2]
    with ThreadPoolExecutor(len(runs)) as pool:
        ended = list(pool.map(lambda run: kill_and_resume(run, tmp_path / run.id), runs))
    assert [end.fault for end in ended] == ["", ""]
