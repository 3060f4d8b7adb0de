"""Files of LEAF and TensorFlow Federated with a few made samples of twelve users."""

import json
from pathlib import Path

import numpy as np

from fedseg.data_prep.image_sets import SHAKESPEARE

USERS = [f"f{number:04d}_07" for number in range(12)]


def write_leaf(folder: Path, name: str, train: int, test: int) -> Path:
    """``{train,test}/*.json`` of FEMNIST or Shakespeare; every user has samples for training."""
    rng = np.random.default_rng(0)
    for split, count in (("train", train), ("test", test)):
        (folder / split).mkdir(parents=True)
        for part, users in enumerate((USERS[:7], USERS[7:])):
            data = {}
            for user in users:
                own = len(range(USERS.index(user), count, len(USERS)))
                if name == "femnist":
                    x = (rng.integers(0, 256, (own, 784)) / 255).tolist()
                    y = rng.integers(0, 62, own).tolist()
                else:
                    x = ["".join(rng.choice(SHAKESPEARE.classes, 80)) for _ in range(own)]
                    y = rng.choice(SHAKESPEARE.classes, own).tolist()
                if own:
                    data[user] = {"x": x, "y": y}
            sizes = [len(own["y"]) for own in data.values()]
            content = {"users": [*data], "num_samples": sizes, "user_data": data}
            (folder / split / f"all_data_{part}.json").write_text(json.dumps(content))
    return folder
