"""A composed config: fedseg show CONFIG [--with METHOD ...] (--help lists the options)."""

from pathlib import Path

from fedseg import cli
from fedseg.errors import ConfigError
from fedseg.names import did_you_mean


def main() -> None:
    parser = cli.parser(
        "Show the config that a setting and methods make: every value, and the file "
        "that it comes from.",
        "example:\n  fedseg show idda_rainy --with fedasam swa --only averaging\n",
    )
    parser.add_argument(
        "config", type=Path, help="a name (fedseg list) or the path of a setting or experiment"
    )
    cli.add_methods(parser, "methods to merge over the config")
    cli.add_cfg_options(parser, "override config fields, as fedseg train does")
    parser.add_argument("--only", metavar="KEY", default="", help="what is below a key")
    arguments = parser.parse_args()
    from fedseg.runner.compose import Composition, setting_file
    from fedseg.runner.experiment import override_fields
    from fedseg.runner.origins import origins

    composition = Composition(setting_file(arguments.config), arguments.methods)
    config = composition.compose()
    override_fields(config, arguments.cfg_options)
    values = list(origins(composition, config.to_dict(), vars(config).get("overridden", ())))
    rows = [
        (f"{key} = {value!r}", file)
        for key, value, file in values
        if f"{key}.".startswith(arguments.only and f"{arguments.only}.")
    ]
    if arguments.only and not rows:
        hint = did_you_mean(arguments.only, {key.partition(".")[0] for key, _, _ in values})
        raise ConfigError(f"--only: {composition.name} has no {arguments.only!r}{hint}")
    width = min(60, max((len(row[0]) for row in rows), default=0))
    print(f"# {composition.name}")
    for said, file in rows:
        print(f"{said:<{width}}  # {file}")
