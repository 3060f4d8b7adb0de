"""Writes the leaderboard's settings: ``python docs/site/benchmark_protocols.py``.

A benchmark is a setting: its protocol is what the configs compose. Composing all of them takes
seconds, so the package holds the outcome; a test compares it with this output.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fedseg.config.check import complete_config  # noqa: E402
from fedseg.leaderboard.benchmarks import DATASETS, MODELS, Setting, records_of  # noqa: E402
from fedseg.leaderboard.comparable import deciding_parts, protocol_of  # noqa: E402
from fedseg.leaderboard.reference import read_json  # noqa: E402
from fedseg.metric_names import Metric  # noqa: E402
from fedseg.runner.experiment import load_config  # noqa: E402
from fedseg.runs.config import config_json  # noqa: E402

FILE = ROOT / "fedseg" / "leaderboard" / "reference" / "settings.json"
FACTS = read_json("benchmarks.json")


def setting_facts() -> Iterator[dict[str, Any]]:
    """The entries of ``benchmarks.json`` by setting, with its id and command."""
    for group in FACTS["settings"]:
        for case in group.get("cases", [{}]):
            facts = {k: v for k, v in (group | case).items() if k != "cases"}
            axes = {k: v for k, v in facts.items() if isinstance(v, list) and k != "also"}
            for values in product(*axes.values()):
                chosen = facts | dict(zip(axes, values, strict=True))
                words = {**chosen, "of_kind": "", "a": str(chosen.get("alpha")).replace(".", "")}
                if chosen["kind"] != "heterogeneous":
                    words["of_kind"] = f"_{chosen['kind']}"
                words |= FACTS["protocols"].get(chosen.get("protocol"), {})
                texts = {k: chosen.get(k, "").format(**words) for k in ("id", "command", "data")}
                words["command"] = texts["command"]
                also = [command.format(**words) for command in chosen.get("also", ())]
                yield chosen | texts | {"id": texts["id"].replace(".", ""), "also": also}


def composed(command: str) -> dict[str, Any]:
    """The config of a command, ``SETTING [--with METHOD ...] [--cfg-options KEY=VALUE ...]``, as
    plain values.
    """
    setting, *words = command.split()
    options = [word for word in words if "=" in word]
    methods = [word for word in words if "=" not in word and not word.startswith("--")]
    config = complete_config(load_config(setting, methods, options=options))
    return json.loads(config_json(config.to_dict()))


def protocol_and_variants(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A setting's protocol with FedAvg, and what each command of ``also`` changes of it."""
    config = composed(facts["command"])
    protocol, variants = protocol_of(config), []
    for command in facts["also"]:
        other = composed(command)
        changed = protocol_of(other)
        usual, parts = deciding_parts(config), deciding_parts(other)
        change = {k: v for k, v in changed.items() if k not in protocol or protocol[k] != v}
        assert protocol.keys() <= changed.keys(), command
        if change:
            variants.append(
                {
                    "command": command,
                    "when": {name: part for name, part in parts.items() if part != usual[name]},
                    "change": change,
                }
            )
    return {"protocol": protocol, "variants": variants}


def config_names(facts: Mapping[str, Any]) -> list[str]:
    """The names of settings in the commands of a benchmark's setting."""
    commands = (facts["command"], *facts["also"])
    return list(dict.fromkeys(command.split()[0] for command in commands))


def setting(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a :class:`fedseg.leaderboard.benchmarks.Setting`."""
    data, composed = DATASETS[facts["dataset"]], protocol_and_variants(facts)
    protocol = composed["protocol"]
    known, note = read_json("known_data.json").get(facts["data"] or facts["dataset"], {}), ""
    if any("released_split" in command for command in facts["also"]):
        released = known["released_splits"][f"{facts['alpha']:g}"]
        note = "" if released else FACTS["released_note"]
        if released:  # it must be that one, once it is known
            known = {**known, "train": {**known["train"], "partition_sha256": released}}
    train = known.get("train", {})
    drawn = protocol.get("train_dataloader.partition.num_clients")
    sizes = {
        "n_clients": drawn or facts.get("n_clients") or train["clients"],
        "clients_per_round": protocol["client_sampler.clients_per_round"],
        "rounds": protocol["train_cfg.max_rounds"],
    }
    published = FACTS["protocols"].get(facts.get("protocol"))
    words = {**facts, **sizes, "kind_title": FACTS["kinds"].get(facts["kind"])}
    words["protocol_title"] = published and published["title"]
    model = MODELS[protocol["model.type"]]
    return {
        "id": facts["id"],
        "title": facts["title"].format(**words),
        "dataset": facts["dataset"],
        "split": {name: facts[name] for name in ("kind", "shift", "alpha") if name in facts},
        "model": model,
        **sizes,
        "local_epochs": protocol.get("train_cfg.local_epochs", 1),
        "domains": list(data["domains"]),
        **composed,
        "free": published["free"] if published else FACTS["free"],
        "known": {part: known[part] for part in ("train", "test") if part in known},
        "window": facts.get("window", protocol["train_cfg.val_last_rounds"]),
        "evaluations": facts.get("evaluations", 20),
        "note": note or data.get("note", ""),
        "command": facts["command"],
        "configs": config_names(facts),
        "parameters": data["parameters"][model],
    }


def tables(setting: Setting) -> Iterator[dict[str, Any]]:
    """The fields of a setting's benchmarks, the main one first."""
    data = DATASETS[setting.dataset]
    title, metric = data.get("group", data["title"]), data["metric"]
    statistic = "final" if setting.window is None else "window"
    columns = [
        {
            "key": key,
            "label": label,
            "metric": str(Metric.of(key, metric)),
            "statistic": statistic,
            "published": [key, metric.lower()],
        }
        for key, label in data["columns"].items()
    ]
    main = {"title": setting.title, "group": title, "columns": columns, "note": setting.note}
    yield {"id": setting.id, "setting": setting.id, **main}
    if data.get("corrupted"):
        name = {"title": setting.title.replace(title, f"{title}-C"), "group": f"{title}-C"}
        more = {"columns": FACTS["corrupted_columns"], "note": FACTS["corrupted_note"]}
        yield {"id": f"{setting.id}_corrupted", "setting": setting.id, **name, **more}
    if (target := target_of(setting)) is not None:
        name = {"title": f"{setting.title}: until {target:g} %", "group": "Communication"}
        more = {"columns": FACTS["target_columns"], "note": FACTS["target_note"], "target": target}
        yield {"id": f"{setting.id}_traffic", "setting": setting.id, **name, **more}


def target_of(setting: Setting) -> float | None:
    """FedAvg's final accuracy, where a paper reports how long other methods take to reach it."""
    cells = [r for r in records_of(setting) if r.variant is None and r.split is not None]
    papers = {r.paper for r in cells if r.metric == FACTS["target_columns"][0]["published"][1]}
    named = attrgetter("metric", "doubt", "algorithm", "averaging", "augmentation")
    wanted = ("accuracy", None, "fedavg", None, None)
    return next((r.value for r in cells if r.paper in papers and named(r) == wanted), None)


def text() -> str:
    """The file's content: a line for each setting and benchmark."""
    settings = [setting(facts) for facts in setting_facts()]
    benchmarks = [table for facts in settings for table in tables(Setting(**facts))]
    groups = [benchmark["group"] for benchmark in benchmarks]
    benchmarks.sort(key=lambda benchmark: groups.index(benchmark["group"]))
    kinds = {"settings": settings, "benchmarks": benchmarks}
    lines = {kind: ",\n".join(map(json.dumps, entries)) for kind, entries in kinds.items()}
    parts = (f'"{kind}": [\n{entries}\n]' for kind, entries in lines.items())
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
