"""The command ``fedseg``: one sub-command a module, and only that one is imported."""

import sys
from importlib import import_module

import fedseg
from fedseg import cli
from fedseg.errors import ConfigError
from fedseg.names import by_case, did_you_mean

COMMANDS = {
    "train": "run a federated experiment",
    "test": "evaluate a checkpoint on every domain",
    "prepare": "verify or render a data set and write its splits",
    "sweep": "run settings x methods x seeds",
    "compare": "compare runs side by side",
    "curvature": "Hessian eigenvalues, trace and sharpness of checkpoints",
    "landscape": "losses along lines and planes through checkpoints",
    "splits": "tables and pictures of who holds what",
    "leaderboard": "finished runs next to published numbers; verify a run",
    "list": "settings, methods, algorithms, data sets and models",
    "show": "a composed config, each value with the file that it comes from",
}
DATA_SETS = {
    "cityscapes": "Cityscapes with FedDrive's splits",
    "idda": "IDDA with FedDrive's splits",
    "camvid": "CamVid",
    "cifar": "CIFAR-10 and CIFAR-100",
    "cifar_c": "their test sets under corruptions",
    "mnist": "MNIST",
    "landmarks": "Landmarks-User-160k",
}


def main() -> int | None:
    """Run ``sys.argv``; returns the exit code."""
    words = sys.argv[1:]
    if words[:1] == ["--version"]:
        print(f"fedseg {fedseg.__version__}")
        return 0
    name = _chosen("fedseg COMMAND", words, COMMANDS)
    if name == "prepare":
        words = words[1:]
        if words[:1] and words[0].lower() in ("cifar10", "cifar100"):
            words = ["cifar", "--dataset", *words]
        data_set = _chosen("fedseg prepare DATA_SET", words, DATA_SETS)
        name = data_set and f"prepare_{data_set}"
    if name is None:
        return 0 if words else ConfigError.exit_code
    # what the command's parser and its messages call it
    sys.argv = [f"fedseg {name.replace('prepare_', 'prepare ')}", *words[1:]]
    return import_module(f"fedseg.commands.{name}").main()


def _chosen(usage: str, words: list[str], known: dict[str, str]) -> str | None:
    """The known word that comes first; None after help was printed."""
    if not words or words[0] in ("-h", "--help"):
        lines = (f"  {word:<12} {what}" for word, what in known.items())
        print(f"usage: {usage} ... (--help after it lists its options)\n", *lines, sep="\n")
        return None
    asked = words[0].replace("-", "_")
    found = by_case(asked, known)
    if found is None:
        raise ConfigError(
            f"{usage}: unknown {words[0]!r}{did_you_mean(asked, known)}; known: {', '.join(known)}"
        )
    return found


def run() -> None:
    """What is installed as ``fedseg``."""
    cli.run(main)
