"""Files of FEMNIST and Shakespeare with a few made samples of twelve users."""

import json
from pathlib import Path

import numpy as np

from fedseg.data_prep.leaf import SHAKESPEARE

USERS = [f"f{number:04d}_07" for number in range(12)]


def write_shakespeare(folder: Path, train: int, test: int) -> Path:
    """``{train,test}/*.json`` of LEAF; every user has samples for training."""
    rng = np.random.default_rng(0)
    for split, count in (("train", train), ("test", test)):
        (folder / split).mkdir(parents=True)
        for part, users in enumerate((USERS[:7], USERS[7:])):
            data = {}
            for user in users:
                own = len(range(USERS.index(user), count, len(USERS)))
                if own:
                    x = ["".join(rng.choice(SHAKESPEARE.classes, 80)) for _ in range(own)]
                    data[user] = {"x": x, "y": rng.choice(SHAKESPEARE.classes, own).tolist()}
            sizes = [len(own["y"]) for own in data.values()]
            content = {"users": [*data], "num_samples": sizes, "user_data": data}
            (folder / split / f"all_data_{part}.json").write_text(json.dumps(content))
    return folder


def write_femnist(folder: Path, train: int, test: int) -> Path:
    """The HDF5 files of TensorFlow Federated with so many images in all."""
    import h5py

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for split, count in (("train", train), ("test", test)):
        with h5py.File(folder / f"fed_emnist_{split}.h5", "w") as file:
            for number, user in enumerate(USERS):
                own = len(range(number, count, len(USERS)))
                file[f"examples/{user}/pixels"] = rng.random((own, 28, 28), np.float32)
                file[f"examples/{user}/label"] = rng.integers(0, 62, own).astype(np.int32)
    return folder
