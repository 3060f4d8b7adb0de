"""What is published of Cityscapes and IDDA. Nothing slow is imported."""

import re

from fedseg.names import IDDA_SETTINGS

from .facts import PairedSet

CITIES = {  # split -> city -> images, 2975 and 500 in all
    "train": {
        "aachen": 174,
        "bochum": 96,
        "bremen": 316,
        "cologne": 154,
        "darmstadt": 85,
        "dusseldorf": 221,
        "erfurt": 109,
        "hamburg": 248,
        "hanover": 196,
        "jena": 119,
        "krefeld": 99,
        "monchengladbach": 94,
        "strasbourg": 365,
        "stuttgart": 196,
        "tubingen": 144,
        "ulm": 95,
        "weimar": 142,
        "zurich": 122,
    },
    "val": {
        "frankfurt": 267,
        "lindau": 59,
        "munster": 174,
    },
}
CITYSCAPES = PairedSet(
    name="cityscapes",
    dataset="CityscapesDataset",
    folders=CITIES,
    contents="the 2975 training and 500 validation images of Cityscapes",
    source="extract leftImg8bit_trainvaltest.zip and gtFine_trainvaltest.zip of Cityscapes there",
    rules={
        "uniform": "images are shuffled and cut into clients of the published sizes; single images "
        "are then swapped until the clients have 5 to 17 cities",
        "heterogeneous": "each city is shuffled and cut into 8 equal clients; a remainder is left "
        "out",
        "class_imbalance": "every image goes to the rarest class it shows (the class that the "
        "fewest images show); images are ordered by that class, rarest first, then by city (cities "
        "in random order), and cut into consecutive clients of the published sizes, in random "
        "order; single images are then swapped, within a class where possible, until the clients "
        "have 1 to 7 cities",
    },
    test_users=("test_user",),
    published_size=(2048, 1024),
    size=(512, 256),
    rendered_name="{domain}_{number:06d}_000019",
    batch_size=16,
    copies=2,
)


def _name_domains() -> tuple[str, ...]:
    """Name IDDA's 104 domains by town, weather and viewpoint."""
    domains = []
    for town in range(1, 8):
        for weather in ("CN", "CS", "HRN"):
            domains += [f"T{town:02d}_{weather}_{viewpoint}" for viewpoint in "ABJMV"]
    domains.remove("T07_CN_M")  # town 7 has no clear noon seen from M
    return tuple(domains)


DOMAINS = _name_domains()
DOMAIN = re.compile(r"T0([1-7])_(CN|CS|HRN)_([ABJMV])")
IDDA = PairedSet(
    name="idda",
    dataset="IDDADataset",
    folders={"": dict.fromkeys(DOMAINS, 60)},
    contents="the 104 domains x 60 images of IDDA",
    source="put IDDA there (<domain>/RGB and <domain>/Semantic)",
    rules={
        "uniform": "as many clients as seen domains; each takes one image from each of the domains "
        "with the most images left, ties at random",
        "heterogeneous": "a client is a domain",
        "class_imbalance": "every image goes to the rarest class it shows (the class that the "
        "fewest images of the train pool show); images are ordered by that class, rarest first, "
        "then by domain (domains in random order), and cut into consecutive clients; a client is "
        "named after the classes its images went to",
    },
    settings=tuple(IDDA_SETTINGS),
    test_users=("test_user_diff_domain", "test_user_same_domain"),
    size=(464, 256),
    rendered_name="{number}_{domain}",
    first_number=1,
    batch_size=16,
)
