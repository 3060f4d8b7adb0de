"""Write a template: fedseg new KIND NAME (see --help)."""

from fedseg import cli

DETAILS = """\
The folder has a runnable file, a config and a test. docs/own_algorithm.md, own_data_set.md and
own_local_loss.md continue from there.

examples:
  fedseg new algorithm halfway
  fedseg new dataset orchards --out my_orchards
"""


def main() -> None:
    parser = cli.parser(
        "Write a template for an algorithm, method, data set or loss of your own.", DETAILS
    )
    parser.add_argument("kind", choices=("algorithm", "method", "dataset", "loss"))
    parser.add_argument("name", help="name of the module, such as halfway")
    parser.add_argument("--out", type=cli.folder, help="a new folder (default: ./NAME)")
    arguments = parser.parse_args()
    from fedseg.api import new

    print(*new(arguments.kind, arguments.name, arguments.out), sep="\n")
