"""The command ``fedseg``: one sub-command a module, and only that one is imported."""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

import fedseg
from fedseg import cli
from fedseg.errors import ConfigError, ResourceError
from fedseg.names import did_you_mean

COMMANDS = {
    "demo": "train on rendered images within minutes",
    "train": "run a federated experiment",
    "test": "evaluate a checkpoint on every domain",
    "predict": "predict photographs, videos or a run's test images",
    "export": "write a run's model as TorchScript, ONNX, a state dict or for MMSegmentation",
    "profile": "measure parameters, FLOPs, latency, memory and bytes of a round",
    "share": "pack a finished run into an archive with a model card",
    "verify": "check an archive of fedseg share",
    "prepare": "verify or render a data set and write its splits",
    "sweep": "run settings x methods x seeds",
    "compare": "compare runs side by side",
    "curvature": "measure Hessian eigenvalues, trace and sharpness of checkpoints",
    "landscape": "plot the loss along lines and planes through checkpoints",
    "browse": "show the clients' images after augmentation",
    "splits": "show how data are split across clients, as a table and a plot",
    "leaderboard": "compare finished runs with published numbers; verify a run",
    "new": "write a template for an algorithm, method, data set or loss of your own",
    "list": "list settings, methods, algorithms, data sets and models",
    "show": "show a composed config, each value with its file",
}


def main() -> int | None:
    """Run ``sys.argv``; returns the exit code."""
    words = sys.argv[1:]
    try:
        os.getcwd()
    except FileNotFoundError as error:  # libraries would end the process where it is not there
        raise ResourceError("the current folder was removed: change to another") from error
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
        print(f"usage: {usage} ... (run {usage} --help for its options)\n", *lines, sep="\n")
        sys.exit(0 if words else ConfigError.exit_code)
    name = words[0].replace("-", "_")
    if name not in known:
        raise ConfigError(
            f"{usage}: unknown {words[0]!r}{did_you_mean(name, known)}; known: {', '.join(known)}"
        )
    return name


def run(*words: str) -> None:
    """Run what is installed as ``fedseg``, with a script's own words in front of the user's."""
    sys.argv[1:1] = words
    cli.run(main)
