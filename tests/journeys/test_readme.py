"""README as it stands: the first experiment, then an algorithm of one's own and what follows."""

import json

import given
from command_lines import advised_commands, printed_commands, small
from walk import skip, walk


def test_readme_leads_to_an_algorithm_of_ones_own(terminal):
    instead = {
        "fedseg demo": skip,  # test_demo.py
        "fedseg prepare cifar --download": skip,  # with the next two: clients of published runs
        "xz ": skip,
        "CLIENTS=": skip,
    }
    walk(terminal, "README.md", instead)
    run = "work_dirs/clipped_shapes/seed0"
    results = terminal.folder / run / "results.json"
    assert json.loads(results.read_text())["completed_rounds"] == 1
    resume = small("fedseg train clipped_shapes.py --resume")
    longer = terminal.run(f"{resume} train_cfg.max_rounds=2")
    assert json.loads(results.read_text())["completed_rounds"] == 2

    (test, *_) = printed_commands(longer)
    assert test == f"fedseg test {run} --trust clipped.py"
    assert "clipped_shapes" in terminal.run(test)
    terminal.run("fedseg compare work_dirs/demo_shapes_fedavgm work_dirs/clipped_shapes")
    given.photograph(terminal.folder / "photo.jpg")
    for line in (
        f"fedseg predict {run} photo.jpg --out predictions",
        f"fedseg export {run} --format onnx --out clipped.onnx",
    ):
        # what a run imports is executed only if one says so: the message is the whole command
        (trusting,) = advised_commands(terminal.fail(line))
        assert trusting == f"{line} --trust clipped.py"
        terminal.run(trusting)
    predictions = (terminal.folder / "predictions" / "predictions.csv").read_text()
    assert predictions.count("photo.jpg") == 1
    assert (terminal.folder / "clipped.onnx").stat().st_size > 1000
