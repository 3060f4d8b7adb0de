"""README as it stands: the first experiment, then an algorithm of one's own and what follows."""

import json

from command_lines import printed_commands, small
from walk import skip, walk


def test_readme_leads_to_an_algorithm_of_ones_own(terminal):
    walk(terminal, "README.md", {"fedseg demo": skip})
    run = terminal.folder / "work_dirs" / "clipped_shapes" / "seed0"
    assert json.loads((run / "results.json").read_text())["completed_rounds"] == 2
    longer = terminal.run(
        f"{small('fedseg train clipped_shapes.py --resume')} train_cfg.max_rounds=3"
    )
    assert json.loads((run / "results.json").read_text())["completed_rounds"] == 3
    tests = [line for line in printed_commands(longer) if line.startswith("fedseg test ")]
    assert len(tests) == 1
    assert "clipped_shapes" in terminal.run(tests[0])
    terminal.run("fedseg compare work_dirs/demo_shapes_fedavgm work_dirs/clipped_shapes")
