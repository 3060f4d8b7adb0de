"""Writes the protocols of the leaderboard's settings: ``python docs/site/benchmark_protocols.py``.

A benchmark is a setting: its protocol is what the configs compose. Composing all of them takes
seconds, so the package holds the outcome; a test compares it with this output.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fedseg.config.keys import select  # noqa: E402
from fedseg.leaderboard.benchmarks import setting_facts  # noqa: E402
from fedseg.leaderboard.comparable import DECIDING, protocol_of  # noqa: E402
from fedseg.runner.config import complete_config  # noqa: E402
from fedseg.runner.experiment import load_config  # noqa: E402
from fedseg.runs.config import config_json  # noqa: E402

FILE = ROOT / "fedseg" / "leaderboard" / "reference" / "protocols.json"


def composed(command: str, *also: str) -> dict[str, Any]:
    """The config of a command, ``SETTING [--with METHOD ...] [--cfg-options KEY=VALUE ...]``, as
    plain values.
    """
    setting, *words = command.split()
    options = [word for word in words if "=" in word]
    methods = [word for word in words if "=" not in word and not word.startswith("--")]
    config = complete_config(load_config(setting, [*methods, *also], options=options))
    return json.loads(config_json(config.to_dict()))


def protocol_and_variants(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A setting's protocol with FedAvg, and what each method of ``also`` changes of it."""
    config = composed(facts["command"])
    protocol, variants = protocol_of(config), []
    for method in facts.get("also", ()):
        other = composed(facts["command"], method)
        changed = protocol_of(other)
        kinds = [(key, select(other).get(key)) for key in DECIDING]
        change = {k: v for k, v in changed.items() if k not in protocol or protocol[k] != v}
        assert protocol.keys() <= changed.keys(), method
        if change:
            variants.append(
                {
                    "method": method,
                    "when": {k: kind for k, kind in kinds if kind != select(config).get(k)},
                    "change": change,
                }
            )
    return {"protocol": protocol, "variants": variants}


def text() -> str:
    """The file's content: a line for each setting."""
    lines = [
        f" {json.dumps(facts['id'])}: {json.dumps(protocol_and_variants(facts))}"
        for facts in setting_facts()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
