"""Run the campaigns, or one case: ``python -m tests.campaign --help``."""

import argparse
import datetime
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.campaign.cases import KINDS, draw
from tests.campaign.judge import CLASSES, CLEAR, UNCLEAR, Judge, Verdict
from tests.campaign.kills import Killed, draw_runs, kill_and_resume

BAR = 0.99  # of the damaged inputs must be clear; nothing may be silent, hang or be executed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seed", type=int, help="default: the date, such as 20260131")
    parser.add_argument("--case", metavar="ID", help="only this one, with all that it says")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="with --case: where its files go")
    parser.add_argument(
        "--only", nargs="+", choices=[*KINDS, "kill"], default=[*KINDS, "kill"], help="kinds"
    )
    parser.add_argument("--limit", type=int, default=10**6, help="cases of each kind")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time")
    return parser.parse_args()


def damaged(judge: Judge, kinds: Sequence[str], seed: int, limit: int, jobs: int) -> list[Verdict]:
    cases = [case for kind in kinds for case in draw(kind, seed, judge.template)[:limit]]
    for command in {case.command: None for case in cases}:
        judge.sound(command)  # once, before threads ask for it
    verdicts = []
    with ThreadPoolExecutor(jobs) as pool:
        for verdict in pool.map(judge, cases):
            verdicts.append(verdict)
            if verdict.judged != CLEAR:
                print(f"{verdict.judged}: {verdict.why}: {verdict.case}", flush=True)
    return verdicts


def killed(folder: Path, seed: int, limit: int, jobs: int) -> list[Killed]:
    with ThreadPoolExecutor(jobs) as pool:
        runs, kills = draw_runs(seed)[:limit], []
        for kill in pool.map(lambda one: kill_and_resume(one, folder / one.id), runs):
            kills.append(kill)
            if kill.fault:
                print(f"not as undisturbed: {kill.run}: {kill.fault}", flush=True)
    return kills


def report(verdicts: Sequence[Verdict], kills: Sequence[Killed], seed: int) -> bool:
    """Print counts and failures; whether the bar is reached."""
    print(f"\none again, with all it says: python -m tests.campaign --seed {seed} --case ID")
    counts = Counter((v.case.id.partition("-")[0], v.judged) for v in verdicts)
    kinds = list(dict.fromkeys(kind for kind, _ in counts))
    print(f"\n{'':12}", *(f"{name:>9}" for name in ("cases", *CLASSES)))
    for kind in (*kinds, "all"):
        row = [sum(n for (k, c), n in counts.items() if kind in (k, "all") and c == one)
               for one in CLASSES]  # fmt: skip
        print(f"{kind:12}", *(f"{number:9}" for number in (sum(row), *row)))
    whole, total = [kill for kill in kills if not kill.fault], sum(kill.kills for kill in kills)
    print(f"\n{len(whole)} of {len(kills)} runs are as undisturbed ones, {total} signals in all")
    wrong = Counter(v.judged for v in verdicts)
    few = wrong[UNCLEAR] <= (1 - BAR) * len(verdicts)
    return few and wrong[CLEAR] + wrong[UNCLEAR] == len(verdicts) and len(whole) == len(kills)


def one_case(name: str, judge: Judge, seed: int, keep: Path | None) -> bool:
    """Run one case and print everything; whether it is as it should be."""
    kind = name.partition("-")[0]
    if kind == "kill":
        run = next(run for run in draw_runs(seed) if run.id == name)
        killed = kill_and_resume(run, keep or judge.folder / run.id)
        print(run, killed.fault or "as undisturbed", sep="\n")
        return not killed.fault
    case = next(case for case in draw(kind, seed, judge.template) if case.id == name)
    verdict = judge(case, keep)
    print(case, verdict.said, f"{verdict.judged}: {verdict.why}", sep="\n")
    return verdict.judged == CLEAR


def main() -> int:
    asked = arguments()
    seed = asked.seed if asked.seed is not None else int(f"{datetime.date.today():%Y%m%d}")
    print(f"seed {seed}")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        judge = Judge(Path(scratch))
        if asked.case:
            return not one_case(asked.case, judge, seed, asked.keep)
        kinds = [kind for kind in asked.only if kind != "kill"]
        verdicts = damaged(judge, kinds, seed, asked.limit, asked.jobs)
        kills = []
        if "kill" in asked.only:
            kills = killed(Path(scratch) / "kills", seed, asked.limit, asked.jobs)
        sound = report(verdicts, kills, seed)
    print(f"seed {seed}: {'passed' if sound else 'FAILED'} in {time.monotonic() - start:.0f} s")
    return not sound


if __name__ == "__main__":
    sys.exit(main())
