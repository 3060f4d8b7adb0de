"""The command ``fedseg``: one sub-command a module, and only that one is imported."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

import fedseg
from fedseg import cli
from fedseg.errors import ConfigError
from fedseg.names import by_case, did_you_mean

COMMANDS = {
    "demo": "a first result within minutes, on rendered images",
    "train": "run a federated experiment",
    "test": "evaluate a checkpoint on every domain",
    "predict": "label maps and classes of photographs, videos or a run's test images",
    "export": "a run's model as TorchScript, ONNX, a state dict or for MMSegmentation",
    "profile": "parameters, operations, latency, memory and bytes of a round",
    "share": "a finished run as one archive, with a model card",
    "verify": "check such an archive",
    "prepare": "verify or render a data set and write its splits",
    "sweep": "run settings x methods x seeds",
    "compare": "compare runs side by side",
    "curvature": "Hessian eigenvalues, trace and sharpness of checkpoints",
    "landscape": "losses along lines and planes through checkpoints",
    "browse": "a page of the clients' images after augmentation",
    "splits": "how data are split across clients, as tables and pictures",
    "leaderboard": "finished runs next to published numbers; verify a run",
    "new": "start an algorithm, method, data set or loss of your own",
    "list": "settings, methods, algorithms, data sets and models",
    "show": "a composed config, each value with the file that it comes from",
}


def main() -> int | None:
    """Run ``sys.argv``; returns the exit code."""
    words = sys.argv[1:]
    if words[:1] == ["--version"]:
        print(f"fedseg {fedseg.__version__}")
        return 0
    name = choose("fedseg COMMAND", words, COMMANDS)
    # what the command's parser and its messages call it
    sys.argv = [f"fedseg {name}", *words[1:]]
    return import_module(f"fedseg.commands.{name}").main()


def choose(usage: str, words: Sequence[str], known: Mapping[str, str]) -> str:
    """The known word that comes first; exits after printing those with a description for help."""
    if not words or words[0] in ("-h", "--help"):
        lines = (f"  {word:<12} {text}" for word, text in known.items() if text)
        print(f"usage: {usage} ... (COMMAND --help lists its options)\n", *lines, sep="\n")
        sys.exit(0 if words else ConfigError.exit_code)
    asked = words[0].replace("-", "_")
    name = by_case(asked, known)
    if name is None:
        raise ConfigError(
            f"{usage}: unknown {words[0]!r}{did_you_mean(asked, known)}; known: {', '.join(known)}"
        )
    return name


def run(*words: str) -> None:
    """Run what is installed as ``fedseg``, with a script's own words in front of the user's."""
    sys.argv[1:1] = words
    cli.run(main)
