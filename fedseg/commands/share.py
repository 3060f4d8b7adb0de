"""Share: fedseg share RUN --out FILE.zip (see --help)."""

from fedseg import cli

DETAILS = """\
The archive has the run's config, results, history and last weights, a model card (README.md, in the
format of the Hugging Face hub) and checksums. config.json reveals the paths of your data folders.

examples:
  fedseg share work_dirs/demo_shapes_fedavgm --out run.zip --license apache-2.0
  fedseg verify run.zip --out run
"""


def main() -> None:
    parser = cli.parser("Pack a finished run into an archive.", DETAILS)
    parser.add_argument("run", type=cli.run_path, metavar="RUN", help="work dir of a run")
    parser.add_argument("--out", type=cli.folder, required=True, metavar="FILE.zip")
    text = "license id (default: %(default)s)"
    parser.add_argument("--license", default="other", metavar="ID", help=text)
    text = "also upload to this repository of the Hugging Face hub (needs huggingface_hub and "
    parser.add_argument("--upload", metavar="USER/NAME", help=f"{text}its token)")
    arguments = vars(parser.parse_args())
    cli.check_there([arguments["run"]], "name a run's work dir")
    from fedseg.api import share

    print(share(**arguments))
