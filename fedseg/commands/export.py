"""Export: fedseg export RUN --format FORMAT (see --help)."""

from fedseg import cli
from fedseg.commands.predict import add_model

DETAILS = """\
torchscript, onnx: uint8 images to class ids, with normalization inside; size, pipeline, classes and
palette are in the metadata (fedseg.json). The file's predictions for an image are
compared with the model's. torch: a state dict with load.py. mmseg: config.py and checkpoint.pth for
MMSegmentation's init_model and inference_model.

examples:
  fedseg export work_dirs/demo_weather --format onnx --out street.onnx
  fedseg export work_dirs/camvid_silobn --format mmseg --domain 0006R0
"""


def main() -> None:
    parser = cli.parser("Export a run's model for other programs.", DETAILS)
    add_model(parser)
    formats = ("torchscript", "onnx", "torch", "mmseg")
    parser.add_argument("--format", required=True, choices=formats)
    parser.add_argument("--out", type=cli.folder, help="default: a file or folder in RUN/export")
    text = "size of photographs and class maps (default: that of the first test image)"
    parser.add_argument("--size", type=cli.image_size, metavar="HEIGHTxWIDTH", help=text)
    arguments = vars(parser.parse_args())
    cli.check_there([arguments["run"]], "name a run's work dir")
    from fedseg.api import export

    cli.say_trust(arguments["trust"])
    print(export(arguments.pop("run"), arguments.pop("format"), **arguments))
