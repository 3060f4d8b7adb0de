"""Profile: fedseg profile RUN|SETTING [--with METHOD ...] (see --help)."""

import json

from fedseg import cli

DETAILS = """\
FLOPs are per image, by PyTorch's FlopCounterMode (convolutions, matrix products, attention); an
addition and a multiplication count as two. Bytes of a round are those of the run, or for a setting
those of a rehearsed client if its data exist.

examples:
  fedseg profile work_dirs/demo_weather
  fedseg profile idda_rainy --with segformer --size 512x928 --batch-size 4
"""


def main() -> None:
    text = "Measure parameters, FLOPs, latency, memory and traffic of a network on this machine."
    parser = cli.parser(text, DETAILS)
    parser.add_argument("target", type=cli.run_path, metavar="RUN|SETTING")
    cli.add_methods(parser, "methods to merge over a setting")
    text = "size of the network's input (default: that of a preprocessed test image)"
    parser.add_argument("--size", type=cli.image_size, metavar="HEIGHTxWIDTH", help=text)
    size = {"type": cli.positive, "default": 1}
    parser.add_argument("--batch-size", **size, metavar="N", help="default: 1")
    parser.add_argument("--device", help="for example cpu or cuda:1")
    parser.add_argument("--amp", action="store_true", help="bfloat16 arithmetic")
    parser.add_argument("--json", action="store_true", help="print JSON")
    cli.add_trust(parser)
    cli.add_cfg_options(parser, "override config fields")
    arguments = vars(parser.parse_args())
    as_json, target = arguments.pop("json"), arguments.pop("target")
    from fedseg.api import profile

    if target.is_dir():
        cli.say_trust(arguments["trust"])
    costs = profile(target, **arguments)
    if as_json:
        print(json.dumps(costs, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    from fedseg.units import format_bytes

    table = Table("part", "parameters", "GFLOPs", title=f"{target}")
    rows = {**costs["parts"], "all": {name: costs[name] for name in ("parameters", "flops")}}
    for name, part in rows.items():
        table.add_row(name, f"{part['parameters']:,}", f"{part['flops'] / 1e9:.3f}")
    Console().print(table)
    height, width = costs["size"]
    print(f"input {height}x{width}, batches of {costs['batch size']}, {costs['device']}")
    milliseconds = 1000 * costs["seconds per batch"]
    print(f"{milliseconds:.1f} ms a batch, {costs['images per second']:.1f} images/s")
    model = format_bytes(costs["bytes of the model"])
    peak = "not measured on a CPU"
    if costs["peak memory"] is not None:
        peak = format_bytes(costs["peak memory"])
    print(f"model {model}, {costs['trainable']:,} parameters trainable, peak memory {peak}")
    traffic = costs["bytes per round"]
    shown = traffic and ", ".join(f"{way} {format_bytes(n)}" for way, n in traffic.items())
    print(f"a round: {shown or 'bytes unknown, no training data'}")
