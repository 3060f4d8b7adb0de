"""Predict: fedseg predict RUN PATH... --out DIR (see --help)."""

import argparse
import sys
from pathlib import Path

from fedseg import cli

DETAILS = """\
Images are preprocessed like the run's test images. A label map (labels/NAME.png, class ids with a
palette) has the size of its photograph; pictures/NAME.png shows it over the photograph. For
classification predictions.csv has the class of each image. If the run has an average, the averaged
weights are used.

examples:
  fedseg predict work_dirs/demo_weather street.jpg photos/ --out predictions
  fedseg predict work_dirs/camvid_silobn film.mp4 --domain 0006R0 --out predictions
  fedseg predict work_dirs/demo_shapes_fedavgm - --out predictions
"""


def add_model(parser: argparse.ArgumentParser) -> None:
    """The options that select a model of a run."""
    parser.add_argument("run", type=cli.run_path, metavar="RUN", help="work dir of a run")
    text = "default: the newest of the run"
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help=text)
    text = "use the BatchNorm statistics of this domain's clients, or of this client, in runs "
    text += "where they stay with the clients (SiloBN, FedBN)"
    parser.add_argument("--domain", metavar="NAME", help=text)
    parser.add_argument("--device", help="for example cpu or cuda:1 (default: the run's)")
    cli.add_trust(parser)
    cli.add_cfg_options(parser, "override fields, for example test_dataloader.seen.batch_size=4")


def main() -> None:
    parser = cli.parser("Predict photographs, folders, videos or test images.", DETAILS)
    add_model(parser)
    text = "images, videos, folders; - for the run's test images"
    parser.add_argument("paths", nargs="+", metavar="PATH", help=text)
    parser.add_argument("--out", type=cli.folder, required=True, help="output folder")
    text = "default: as in the run's tests"
    parser.add_argument("--batch-size", type=cli.positive, metavar="N", help=text)
    amp = argparse.BooleanOptionalAction
    parser.add_argument("--amp", action=amp, help="bfloat16 arithmetic (default: as in the run)")
    arguments = vars(parser.parse_args())
    run, paths, out = (arguments.pop(name) for name in ("run", "paths", "out"))
    if "-" in paths and len(paths) > 1:
        parser.error("-: the test images cannot be combined with other paths")
    images = None if paths == ["-"] else paths
    cli.check_there(images or (), "name an image, a video or a folder of them")
    cli.check_there([run], "name a run's work dir")
    from fedseg.api import predict

    cli.say_trust(arguments["trust"])
    with cli.progress() as bar:
        task = bar.add_task("images", total=None)
        advance = lambda number: bar.advance(task, number)  # noqa: E731
        done = predict(run, images, out=out, advance=advance, **arguments)
    print(done.statistics, file=sys.stderr)
    print(*dict.fromkeys(out / path.relative_to(out).parts[0] for path in done.files), sep="\n")
