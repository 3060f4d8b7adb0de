"""A composed config: fedseg show CONFIG [--with METHOD ...] (--help lists the options)."""

from pathlib import Path

from fedseg import cli
from fedseg.errors import ConfigError
from fedseg.names import did_you_mean


def main() -> None:
    parser = cli.parser(
        "Show the config of a setting with methods: every value with its file.",
        "example:\n  fedseg show idda_rainy --with fedasam swa --only averaging\n",
    )
    text = "a name (fedseg list) or the path of a setting or experiment"
    parser.add_argument("config", type=Path, help=text)
    cli.add_methods(parser, "methods to merge over the config")
    cli.add_cfg_options(parser, "override config fields, as fedseg train does")
    parser.add_argument("--only", metavar="KEY", default="", help="show only this key")
    arguments = parser.parse_args()
    from fedseg.config.check import check_unknown_keys
    from fedseg.config.compose import compose, setting_file
    from fedseg.config.layers import (
        CONFIGS,
        errors_name_their_source,
        find_layer,
        layers_of,
    )
    from fedseg.config.roles import select
    from fedseg.runner.experiment import override_fields

    config = compose(setting_file(arguments.config), arguments.methods)
    override_fields(config, arguments.options)
    with errors_name_their_source(config):
        check_unknown_keys(config)
    name, layers = config.pop("experiment_name"), layers_of(config)
    values = select(config.to_dict())
    rows = []
    for key, value in values.items():
        if f"{key}.".startswith(arguments.only and f"{arguments.only}."):
            layer = find_layer(layers, key)
            file = "composed" if layer is None else layer.file.removeprefix(f"{CONFIGS}/")
            rows.append((f"{key} = {value!r}", file))
    if arguments.only and not rows:
        hint = did_you_mean(arguments.only, {key.partition(".")[0] for key in values})
        raise ConfigError(f"--only: {name} has no {arguments.only!r}{hint}")
    width = min(60, max((len(text) for text, _ in rows), default=0))
    print(f"# {name}")
    for text, file in rows:
        print(f"{text:<{width}}  # {file}")
