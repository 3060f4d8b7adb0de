"""Data of one's own, in every form that the page names, to predictions with their classes."""

import json

import given
import onnx
import pytest
from command_lines import ROOT, printed_commands, small
from doc_pages import blocks, commands
from walk import add, skip, walk

PAGE = "docs/own_data_set.md"
NO_LOADERS = "train_dataloader.num_workers=0"  # whose processes import everything
# the other ways to a folder data/pets: the tests below
COCO = "fedseg prepare segmentation data/pets --from coco"
ALTERNATIVES = {
    COCO: given.coco,
    "fedseg prepare segmentation data/pets --from cvat": given.cvat,
    "fedseg prepare segmentation data/pets --from labelme": given.labelme,
}


def test_own_data_set(terminal):
    given.label_maps(terminal.folder)
    given.orchards(terminal.folder)
    given.flowers(terminal.folder)
    instead = dict.fromkeys(ALTERNATIVES, skip)
    for config in ("data/pets/own_pets.py", "orchards_fedavg.py", "flowers_fedavg.py"):
        instead[f"fedseg train {config}"] = add(NO_LOADERS)
    walk(terminal, PAGE, instead)


@pytest.mark.new_user
def test_images_and_label_maps_of_ones_own(terminal):
    given.orchards(terminal.folder)
    terminal.write("data/orchards/classes.txt", "void\nsoil\ntree\nsky\n")
    for line in commands(blocks(ROOT / "docs/data_sets.md")[-1]):
        terminal.run(small(line))


@pytest.mark.parametrize("beginning", ALTERNATIVES)
def test_annotations_become_predictions_with_their_classes(terminal, beginning, is_new_user):
    ALTERNATIVES[beginning](terminal.folder)
    lines = [line for block in blocks(ROOT / PAGE) for line in commands(block)]
    (prepare,) = [line for line in lines if line.startswith(beginning)]
    (train,) = printed_commands(terminal.run(prepare))
    assert train.startswith("fedseg train ")
    if beginning != COCO and not is_new_user:  # one form is followed to its end, a user every one
        terminal.run(f"{train} --dry-run")
        return
    (test, *_) = printed_commands(terminal.run(f"{small(train)} {NO_LOADERS}"))
    assert test.startswith("fedseg test ")
    run = test.split()[2]
    results = json.loads((terminal.folder / run / "results.json").read_text())
    assert set(results["final"]["seen"]["IoU"]) == set(given.PETS)

    given.photograph(terminal.folder / "photo.jpg", width=100, height=60)
    terminal.run(f"fedseg predict {run} photo.jpg --out predictions")
    assert (terminal.folder / "predictions" / "pictures" / "photo.png").is_file()
    terminal.run(f"fedseg export {run} --format onnx --out pets.onnx")
    model = onnx.load(terminal.folder / "pets.onnx")
    (text,) = [entry.value for entry in model.metadata_props if entry.key == "fedseg.json"]
    assert json.loads(text)["classes"] == given.PETS
