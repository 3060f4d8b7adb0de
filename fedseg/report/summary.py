"""Tables on the terminal: what a run reached, where its files are, what to do next."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedseg.cli import python
from fedseg.errors import DataError
from fedseg.report.corruptions import CorruptionAccuracies
from fedseg.runner.checkpoint import checkpoints
from fedseg.runs.run_files import RunFiles, domain_label, is_number, main_metric
from fedseg.units import format_duration


def print_summary(
    work_dir: str | Path,
    config: str | Path | None = None,
    real_config: str | Path | None = None,
    console: Console | None = None,
) -> None:
    """Print what a finished run reached, from its ``results.json``.

    Args:
        work_dir: of the run.
        config: the config file that it was started with.
        real_config: the config of the same experiment on real data, named if the data are rendered.
        console: where to print; standard output by default.

    Raises:
        DataError: the run has no ``results.json``, or a damaged one.
    """
    run = RunFiles.read(work_dir)
    if not run.results:
        raise DataError(f"{run.folder / 'results.json'}: is missing, the run is not finished")
    console = console or Console()
    console.print()
    console.print(_figures(run))
    console.print(_facts(run))
    corrupted = CorruptionAccuracies.find(run.results)
    if corrupted is not None:
        worst = zip(corrupted.severities, corrupted.means(), strict=True)
        listed = ", ".join(f"{_number(value)} at {severity}" for severity, value in worst)
        console.print(
            f"under {len(corrupted.table)} corruptions: mean accuracy {_number(corrupted.overall)} "
            f"%; by severity {listed}",
            soft_wrap=True,
            highlight=False,
        )
    for text in _next_steps(run, config, real_config):
        # commands must stay in one piece for copying
        console.print(text, soft_wrap=True, highlight=False)


def print_test(results: Mapping[str, Any], files: Sequence[Path], console: Console | None = None):
    """Print the figures of ``test_results.json`` and where the files are."""
    domains = results["domains"]
    metric = main_metric(k for d in domains.values() for k in d if is_number(d[k])) or "figure"
    name = Path(results["checkpoint"]).name
    model = ", averaged model" if results.get("averaged") else ""
    table = Table(title=f"{results['name']}: {name}{model}", title_justify="left")
    table.add_column("domain", no_wrap=True)
    metrics = [metric] + [m for m in ("aAcc",) if any(m in d for d in domains.values())]
    for column in (*metrics, "images"):
        table.add_column(column, justify="right")
    for domain, entry in domains.items():
        values = [_number(entry.get(m)) for m in metrics]
        table.add_row(escape(domain_label(domain, domains)), *values, str(entry["images"]))
    console = console or Console()
    console.print(table)
    for text in _coverage(domains):
        console.print(f"by_domain: {text}", soft_wrap=True)
    for path in files:
        console.print(str(path), soft_wrap=True, highlight=False, markup=False)


def _figures(run: RunFiles) -> Table:
    """Domains by last value and mean over the window at the end."""
    results = run.results
    final = results.get("final") or {}
    metric = main_metric(k for d in final.values() for k in d if is_number(d[k])) or "figure"
    window = results.get("last_rounds") or {}
    averaged = (window.get("evaluations") or 0) > 1
    table = Table(title=f"{results.get('name')}: {_method(results)}", title_justify="left")
    table.add_column("domain", no_wrap=True)
    table.add_column(f"{metric} (%)", justify="right", style="bold")
    if averaged:
        table.add_column(f"last {window['rounds']} rounds: mean ± std", justify="right")
    if any("aAcc" in d for d in final.values()):
        table.add_column("pixel accuracy", justify="right")
    table.add_column("images", justify="right")
    for domain, entry in final.items():
        row = [escape(domain_label(domain, final)), _number(entry.get(metric))]
        if averaged:
            figure = f"{domain}/{metric}"
            mean, std = (window.get(k, {}).get(figure) for k in ("mean", "std"))
            row.append(f"{_number(mean)} ± {_number(std)}" if is_number(mean) else "-")
        if any("aAcc" in d for d in final.values()):
            row.append(_number(entry.get("aAcc")))
        test = domain.removeprefix("global:").removesuffix("_by_domain")
        row.append(str((results.get("data") or {}).get(f"test:{test}", {}).get("samples", "-")))
        table.add_row(*row)
    if not final:
        table.add_row("nothing was evaluated", *["-"] * (len(table.columns) - 1))
    return table


def _coverage(domains: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What figures by domain rest on, where some domains' clients have not trained yet."""
    return [
        f"{entry['domains_with_statistics']} of the {entry['domains']} domains have statistics of "
        "their own so far, the others are as in standard"
        for entry in domains.values()
        if entry.get("domains_with_statistics", 0) < entry.get("domains", 0)
    ]


def _method(results: Mapping[str, Any]) -> str:
    """Algorithm, local optimiser, averaging and BatchNorm policy in a few words."""
    wrapper = (results.get("optim_wrapper") or {}).get("type") or "OptimWrapper"
    local = wrapper.removesuffix("OptimWrapper")
    names = [(results.get("algorithm") or {}).get("type"), local]
    names += [(results.get(k) or {}).get("type") for k in ("averaging", "batchnorm")]
    return " + ".join(name for name in names if name)


def _facts(run: RunFiles) -> Table:
    """Rounds, time, traffic and files."""
    results = run.results
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    clients = results.get("clients_per_round") or {}
    total = ((results.get("data") or {}).get("train") or {}).get("clients")
    each = " to ".join(str(n) for n in dict.fromkeys(clients.get(k) for k in ("min", "max")) if n)
    table.add_row(
        "rounds",
        f"{results.get('completed_rounds')} of {results.get('rounds')}"
        + (f", {each} of {total} clients each" if each and total else ""),
    )
    for text in _coverage(results.get("final") or {}):
        table.add_row("by_domain", text)
    seconds = results.get("seconds") or {}
    if is_number(seconds.get("wall")):
        parts = [
            f"{k} {format_duration(seconds[k])}" for k in ("train", "evaluate") if k in seconds
        ]
        table.add_row(
            "time", format_duration(seconds["wall"]) + (f" ({', '.join(parts)})" if parts else "")
        )
    traffic = results.get("communication") or {}
    if traffic:
        down, up = (_size(traffic.get(k) or 0) for k in ("bytes_down", "bytes_up"))
        table.add_row("communication", f"{down} to the clients, {up} back")
    if results.get("rejected_updates"):
        table.add_row("rejected", f"{results['rejected_updates']} updates, see history.jsonl")
    table.add_row("files", escape(f"{run.folder}/"))
    for name, what in _files(run):
        table.add_row("", escape(f"  {name:<31} {what}"))
    return table


def _files(run: RunFiles) -> list[tuple[str, str]]:
    found = [
        (name, what)
        for name, what in (
            ("results.json", "figures, versions, checksums"),
            ("history.jsonl", "a line a round"),
            ("tensorboard", "the same for TensorBoard"),
        )
        if (run.folder / name).exists()
    ]
    newest = _newest(run)
    if newest is not None:
        found.append((f"checkpoints/{newest.name}", "the newest model"))
    pictures = run.folder / "pictures"
    about = {
        "curves": "loss and figures over rounds",
        "iou_by_class": "every class",
        "client_accuracy": "accuracy for each client over rounds",
        "corruptions": "accuracy by corruption and severity",
    }
    for path in sorted(pictures.glob("*.png")) if pictures.is_dir() else []:
        found.append((f"pictures/{path.name}", about.get(path.stem, "predictions")))
    return found


def _newest(run: RunFiles) -> Path | None:
    found = checkpoints(run.folder / "checkpoints")
    return found[-1][1] if found else None


def _next_steps(
    run: RunFiles, config: str | Path | None, real_config: str | Path | None
) -> list[str]:
    steps = []
    newest = _newest(run)
    if newest is not None:
        command = escape(f"{python()} tools/test.py {_test_config(run, config)} {newest}")
        steps.append(f"\n[dim]test the model[/dim]\n  {command}")
    data = (run.results.get("data") or {}).get("train") or {}
    if data.get("synthetic", data.get("embedded")):
        name = str(data.get("dataset", "")).removesuffix("Dataset")
        folder, tool = name.lower(), name.lower()
        if name in ("SyntheticShapes", "EmbeddedImages"):  # the old name
            name, folder, tool = "CIFAR-10", "cifar10", "cifar"
        steps.append(
            "\n[dim]the data are rendered: these are not the published benchmark's figures; with "
            f"the real {name} below data/{folder}[/dim]\n"
            f"  {python()} tools/prepare_{tool}.py"
        )
        if real_config is not None:
            steps.append(f"  {python()} tools/train.py {escape(str(real_config))}")
    return steps


def _test_config(run: RunFiles, config: str | Path | None) -> str:
    """The config in the work dir, which holds what the command line changed.

    One that imports modules from beside it works only where it was.
    """
    copy = run.folder / f"{run.results.get('name')}.py"
    if copy.is_file() and "custom_imports" not in copy.read_text(encoding="utf-8"):
        return str(copy)
    return f"{config or 'CONFIG'}{' --amp' * bool(run.results.get('amp'))}"


def _number(value: Any) -> str:
    return f"{value:.2f}" if is_number(value) else "-"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
