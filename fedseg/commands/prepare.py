"""Verify or render a data set and write its splits, or write the weights of an encoder."""

import sys
from pathlib import Path

from fedseg import cli
from fedseg.commands.main import choose
from fedseg.data_prep.data_sets import DATA_SETS, owner_of

WEIGHTS = "weights"  # the only name that is no data set's
WEIGHTS_DETAILS = """\
FILE is a file of timm (model.safetensors) or of the project that trained the encoder, see
docs/encoders.md; nothing is downloaded. Methods with a pretrained encoder read what is written.

examples:
  fedseg prepare weights tf_efficientnet_lite0
  fedseg prepare weights convnext_tiny convnext_tiny_1k_224_ema.pth
"""
WAYS = ("source", "download", "npz", "synthetic")  # options that need no root


def main() -> None:
    words = sys.argv[1:]
    titles = {name: data_set.title for name, data_set in DATA_SETS.items()}
    titles |= {m: "" for d in DATA_SETS.values() for m in d.members if m not in titles}
    titles[WEIGHTS] = "a pretrained encoder of timm, for methods such as efficientnet_lite0"
    name = choose("fedseg prepare DATA_SET", words, titles)
    if name == WEIGHTS:
        write_weights(words[1:])
        return
    data_set = owner_of(name)
    if name != data_set.name:  # one of several that a command prepares
        words = [data_set.name, "--dataset", name, *words[1:]]
    parser = cli.parser(data_set.purpose, data_set.help)
    parser.prog = f"fedseg prepare {data_set.name}"
    data_set.add_arguments(parser)
    options = vars(parser.parse_args(words[1:]))
    member, root = options.pop("dataset", data_set.name), options.pop("root")
    if not any(options.get(way) for way in WAYS):
        flags = [] if data_set.positional else ["--root"]
        flags += [data_set.flags[way] for way in WAYS if way in data_set.flags]
        fix = f"{data_set.fix}{', or give ' if flags else ''}{' or '.join(flags)}"
        cli.check_there([data_set.root_of(member, root)], fix)
    from fedseg.report.partition_charts import show_partition

    outcome = data_set.run(member, root, **options)
    for chart in outcome.charts:
        show_partition(*chart)
    print(outcome.closing)


def write_weights(words: list[str]) -> None:
    """Run ``fedseg prepare weights`` with these arguments."""
    parser = cli.parser("Write the weights of an encoder with timm's names.", WEIGHTS_DETAILS)
    parser.prog = f"fedseg prepare {WEIGHTS}"
    parser.add_argument("encoder", metavar="ENCODER", help="a model of timm")
    text = "its weights (default for tf_efficientnet_lite0: those of the extra 'pretrained')"
    parser.add_argument("file", nargs="?", metavar="FILE", help=text)
    text = "file to write (default: data/weights/ENCODER.safetensors)"
    parser.add_argument("--out", type=Path, metavar="FILE.safetensors", help=text)
    arguments = parser.parse_args(words)
    from fedseg.data_prep.encoder_weights import prepare_weights

    out = arguments.out or Path("data/weights", f"{arguments.encoder}.safetensors")
    left_out = prepare_weights(arguments.encoder, arguments.file, out)
    if left_out:
        print(f"left out: {', '.join(left_out)}")
    print(f"wrote {out}")
