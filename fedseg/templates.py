"""Beginnings of one's own algorithm, method, data set or local loss: runnable files and a test."""

import keyword
import re
from importlib.util import find_spec
from pathlib import Path

from fedseg.errors import ConfigError
from fedseg.files import write_text
from fedseg.names import did_you_mean

CONFIG = """\
_base_ = "fedseg::settings/demo_shapes.py"  # data: fedseg prepare cifar --synthetic

custom_imports = dict(imports=["@name"], allow_failed_imports=False)
@body
"""
TEST = '''\
"""Run with: python -m pytest test_@name.py"""

import sys
from pathlib import Path

import fedseg
from fedseg.data_prep.synthetic_shapes import write_shapes

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
FEW = {
    "train_cfg.max_rounds": 2,
    "train_cfg.local_epochs": 1,
    "train_dataloader.partition.num_clients": 4,
    "client_sampler.clients_per_round": 2,
    "default_hooks.pictures": None,
    "device": "cpu",
}


def losses(config, work_dir, methods=(), **options):
    """The training loss of every round of a short run."""
    data = work_dir.parent / "data"
    if not data.is_dir():
        write_shapes(data, train=80, test=20)
    options = {**FEW, "data_root": str(data), **options}
    run = fedseg.train(config, methods, work_dir=work_dir, options=options)
    return [record["loss"] for record in run.history]


def test_@name(tmp_path):
@body
'''
ALGORITHM = '''\
"""@class, a federated algorithm of one's own."""

from typing import Annotated

from annotated_types import Gt, Le

from fedseg.algorithms import FedAvg
from fedseg.core.messages import Update
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class @class(FedAvg):
    """FedAvg whose clients send a share of their updates; 1 is FedAvg.

    Args:
        share: what the difference is multiplied by.
        server_optim: as in FedAvg.
    """

    def __init__(self, share: Annotated[float, Gt(0), Le(1)] = 0.5, server_optim=None):
        super().__init__(server_optim)
        self.share = share

    def correct(self, client):
        """Before each local step: change ``client.grad`` here, in place."""

    def finish(self, client):
        """After the last local step: ``client.delta()`` is ``start - w``."""
        return Update({"delta": client.delta().mul_(self.share)})
'''
LOSS = '''\
"""@class, a local loss of one's own."""

from typing import Annotated

from annotated_types import Ge

from fedseg.core.local_loss import LocalLoss
from fedseg.models.classifier import record_calls
from fedseg.registry import LOCAL_LOSSES


@LOCAL_LOSSES.register_module()
class @class(LocalLoss):
    """The model's loss plus ``weight`` times the mean square of its logits; 0 is none.

    Args:
        layer: the module whose output the logits are.
        weight: of the penalty.
    """

    def __init__(self, layer: str = "classifier", weight: Annotated[float, Ge(0)] = 0.01):
        self.layer, self.weight = layer, weight

    def loss(self, client):
        """A tensor with a graph; ``client.batch`` has the images and labels."""
        with record_calls(client.model.get_submodule(self.layer)) as calls:
            loss = client.model_loss()
        return loss + self.weight * calls[0].output.square().mean()
'''
DATASET = '''\
"""@class, a data set of one's own; ``python @name.py DIR`` draws a few images of it."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from fedseg.datasets import SegmentationDataset
from fedseg.partition import Split, write_split
from fedseg.registry import DATASETS


@DATASETS.register_module()
class @class(SegmentationDataset):
    """Two classes, images in ``<site>/images`` and label maps in ``<site>/labels``."""

    classes = ("ground", "thing")
    palette = [[150, 100, 60], [30, 120, 40]]
    label_ids = {0: 255, 1: 0, 2: 1}  # raw id in a file -> class; 255 is ignored

    def label_of(self, image):
        return image.replace("/images/", "/labels/")

    def domain_of(self, image):
        return image.split("/")[0]


def draw(root: Path) -> None:
    """Replace this by your files; keep the split: who trains on what, and what tests."""
    rng, users = np.random.default_rng(0), {}
    for site in ("north", "south", "east"):
        for number in range(8):
            top, left = rng.integers(0, 32, 2)
            label = np.ones((64, 64), np.uint8)
            label[top : top + 32, left : left + 32] = 2
            image = np.where(label[..., None] == 2, (40, 160, 60), (160, 110, 70))
            image = np.clip(image + rng.normal(0, 20, image.shape), 0, 255).astype(np.uint8)
            pair = f"{site}/images/{number}.png", f"{site}/labels/{number}.png"
            for name, pixels in zip(pair, (image, label), strict=True):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(root / name)
            users.setdefault(site, []).append(pair)
    test = {"seen": [users[site].pop() for site in ("north", "south")], "unseen": users.pop("east")}
    write_split(root / "splits" / "train", Split(users))
    write_split(root / "splits" / "test", Split(test))


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
'''
DATASET_CONFIG = """\
# data: python @name.py data/@name
_base_ = "fedseg::settings/demo_weather.py"

custom_imports = dict(imports=["@name"], allow_failed_imports=False)
__root = "data/@name"
__test = dict(_delete_=True, type="@class", data_root=__root, split="splits/test")
model = dict(num_classes=2, weights=None)
train_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type="@class",
        data_root=__root,
        split="splits/train",
        pipeline=[dict(type="HorizontalFlip", p=0.5)],
    ),
)
val_dataloader = dict(
    seen=dict(dataset=dict(users="seen", **__test)),
    unseen=dict(dataset=dict(users="unseen", **__test)),
)
test_dataloader = val_dataloader
client_sampler = dict(clients_per_round=2)
load_from = None
"""
METHOD = """\
# A method: fedseg train SETTING --with methods/@name.py. What it decides is its slot; two methods
# of one slot are refused. Slots: algorithm, local_optimizer, regularizer, average, batchnorm,
# augmentation, style, network, ...
slot = "algorithm"

algorithm = dict(_delete_=True, type="FedProx", mu=0.1)  # _delete_: of the setting's nothing stays
"""


def _reduction(options: str) -> str:
    return (
        '    own = losses(HERE / "demo_shapes_@name.py", tmp_path / "own")\n'
        f'    none = losses(HERE / "demo_shapes_@name.py", tmp_path / "none", **{options})\n'
        '    plain = losses("demo_shapes", tmp_path / "plain")\n'
        "    assert none == plain and own != plain"
    )


KINDS = {  # kind -> file -> content
    "algorithm": {
        "@name.py": ALGORITHM,
        "demo_shapes_@name.py": CONFIG.replace("@body", 'algorithm = dict(type="@class")'),
        "test_@name.py": TEST.replace("@body", _reduction('{"algorithm.share": 1.0}')),
    },
    "loss": {
        "@name.py": LOSS,
        "demo_shapes_@name.py": CONFIG.replace("@body", 'local_loss = dict(type="@class")'),
        "test_@name.py": TEST.replace("@body", _reduction('{"local_loss.weight": 0.0}')),
    },
    "method": {
        "methods/@name.py": METHOD,
        "demo_shapes_@name.py": (
            '_base_ = "fedseg::settings/demo_shapes.py"  # data: fedseg prepare cifar --synthetic\n'
            'methods = ["@name"]\n'
        ),
        "test_@name.py": TEST.replace(
            "@body",
            '    own = losses(HERE / "demo_shapes_@name.py", tmp_path / "own")\n'
            '    methods = [str(HERE / "methods/@name.py")]\n'
            '    given = losses("demo_shapes", tmp_path / "given", methods)\n'
            '    plain = losses("demo_shapes", tmp_path / "plain")\n'
            "    assert own == given != plain",
        ),
    },
    "dataset": {
        "@name.py": DATASET,
        "@name_fedavg.py": DATASET_CONFIG,
        "test_@name.py": TEST.partition("FEW = ")[0].replace(
            "from fedseg.data_prep.synthetic_shapes import write_shapes\n", ""
        )
        + "\n\ndef test_@name(tmp_path):\n"
        "    import @name\n\n"
        '    @name.draw(tmp_path / "data")\n'
        '    options = {"data_root": str(tmp_path / "data"), "train_cfg.max_rounds": 1}\n'
        '    options |= {"default_hooks.pictures": None, "device": "cpu"}\n'
        '    config = HERE / "@name_fedavg.py"\n'
        '    run = fedseg.train(config, work_dir=tmp_path / "run", options=options)\n'
        '    assert {"seen/mIoU", "unseen/mIoU"} <= set(run.metrics)\n',
    },
}


def write_new(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a file, a config and a test to a new folder.

    Raises:
        ConfigError: the kind is unknown, the name is no new module's, or the folder has files.
    """
    if kind not in KINDS:
        raise ConfigError(f"new: unknown {kind!r}{did_you_mean(kind, KINDS)}: {', '.join(KINDS)}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigError(f"new: {name!r} is no name of a module: use small letters, digits and _")
    if find_spec(name) is not None:
        raise ConfigError(f"new: {name!r} is an installed module: take another name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: is there: name a new or empty folder with --out")
    title = "".join(part.title() for part in name.split("_"))
    paths = []
    for file, text in KINDS[kind].items():
        path = folder / file.replace("@name", name)
        write_text(path, text.replace("@name", name).replace("@class", title).rstrip() + "\n")
        paths.append(path)
    return paths
