"""The names that ``fedseg prepare`` knows, and the call of their functions.

A module of this table has ``PURPOSE`` and ``DETAILS``, the texts of its help, ``add_arguments`` and
``prepare``. Only the module of the name is imported, and only its ``prepare`` imports what is slow.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from fedseg.errors import ConfigError
from fedseg.names import did_you_mean

from .arguments import check_folder
from .outcome import Outcome

# name -> its module, which is the command, and its title in the list. What is called otherwise than
# its module is one of several data sets, the --dataset of the command, and has no title.
DATA_SETS = {
    "cityscapes": ("cityscapes", "Cityscapes with FedDrive's splits"),
    "idda": ("idda", "IDDA with FedDrive's splits"),
    "camvid": ("camvid", "CamVid"),
    "segmentation": ("segmentation", "label maps of any layout; acdc, bdd100k, gta5, voc, ..."),
    "fundus": ("fundus", "fundus photographs of four sites"),
    "prostate": ("prostate", "prostate MRI of six sites"),
    "cifar": ("cifar", "CIFAR-10 and CIFAR-100"),
    "mnist": ("mnist", "MNIST"),
    "leaf": ("leaf", "FEMNIST and Shakespeare of LEAF (femnist, shakespeare)"),
    "landmarks": ("landmarks", "Landmarks-User-160k"),
    "acdc": ("segmentation", ""),
    "bdd100k": ("segmentation", ""),
    "mapillary_a": ("segmentation", ""),
    "mapillary_b": ("segmentation", ""),
    "idd": ("segmentation", ""),
    "gta5": ("segmentation", ""),
    "synthia": ("segmentation", ""),
    "voc": ("segmentation", ""),
    "ade20k": ("segmentation", ""),
    "polyps": ("segmentation", ""),
    "cifar10": ("cifar", ""),
    "cifar100": ("cifar", ""),
    "femnist": ("leaf", ""),
    "shakespeare": ("leaf", ""),
}


def command_of(name: str) -> str:
    """Name the command that prepares a data set."""
    return DATA_SETS[name][0]


def import_family(name: str) -> ModuleType:
    """Import the module that prepares a data set."""
    return import_module(f"fedseg.data_prep.{command_of(name)}")


def prepare(name: str, root: Path | None = None, **options: Any) -> Outcome:
    """Prepare a data set, in its usual folder without a root, after a check of the options.

    Args:
        options: those of its module's ``prepare``.

    Raises:
        ConfigError: an option is unknown, or its value of another type or no choice.
    """
    from fedseg.config.arguments import check_value, read_signature

    function = import_family(name).prepare
    hints = read_signature(function).hints
    if name != command_of(name):
        options["dataset"] = name
    for option, value in options.items():
        if option not in hints:
            hint = did_you_mean(option, hints)
            raise ConfigError(f"prepare: {name} has no option {option!r}{hint}")
        if isinstance(value, str) and Path in get_args(hints[option]):
            options[option] = Path(value)
        elif value is not None:
            check_value(f"--{option.replace('_', '-')}", value, hints[option])
    if root is not None:
        check_folder(root)
    return function(root, **options)
