"""Verify or render a data set and write its splits, or write the weights of an encoder."""

import sys
from pathlib import Path

from fedseg import cli
from fedseg.commands.main import choose
from fedseg.data_prep.data_sets import DATA_SETS, command_of, import_family, prepare

WEIGHTS = "weights"  # the only name that is no data set's
WEIGHTS_DETAILS = """\
FILE is a file of timm (model.safetensors) or of the project that trained the encoder, see
docs/encoders.md; nothing is downloaded. Methods with a pretrained encoder read what is written.

examples:
  fedseg prepare weights tf_efficientnet_lite0
  fedseg prepare weights convnext_tiny convnext_tiny_1k_224_ema.pth
"""


def main() -> None:
    words = sys.argv[1:]
    titles = {name: title for name, (_, title) in DATA_SETS.items()}
    titles[WEIGHTS] = "a pretrained encoder of timm, for methods such as efficientnet_lite0"
    name = choose("fedseg prepare DATA_SET", words, titles)
    if name == WEIGHTS:
        write_weights(words[1:])
        return
    command = command_of(name)
    if name != command:  # one of several data sets of the command
        words = [command, "--dataset", name, *words[1:]]
    family = import_family(command)
    parser = cli.parser(family.PURPOSE, family.DETAILS)
    parser.prog = f"fedseg prepare {command}"
    family.add_arguments(parser)
    outcome = prepare(command, **vars(parser.parse_args(words[1:])))
    for chart in outcome.charts:
        from fedseg.report.splits_output import show_split

        show_split(*chart)
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
