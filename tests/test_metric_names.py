"""What metrics and domains are called."""

import pytest

from fedseg.metric_names import (
    Metric,
    domain_label,
    find_set,
    flatten,
    global_name,
    main_metric,
    nest,
)

NAMES = {
    "unseen_0001TP/mIoU": ("unseen_0001TP", "standard", "mIoU"),
    "seen_by_domain/mIoU": ("seen", "by_domain", "mIoU"),
    "global:seen/pixel/mIoU": ("seen/pixel", "global standard", "mIoU"),
    "global:seen_by_domain/mIoU": ("seen", "global by_domain", "mIoU"),
    "mIoU": ("", "standard", "mIoU"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_parsed_and_made_again(name):
    metric = Metric.parse(name)
    assert metric == NAMES[name]
    assert str(metric) == name


def test_names_by_domain():
    metrics = {name: number for number, name in enumerate(NAMES)}
    assert nest(metrics)["global:seen/pixel"] == {"mIoU": 2}
    assert flatten(nest(metrics)) == metrics
    assert Metric.parse(global_name("seen_by_domain/mIoU")).is_global


def test_labels_of_domains():
    domains = ["unseen", "seen", "seen_by_domain", "global:seen", "global:seen_by_domain"]
    assert [domain_label(d, domains) for d in domains] == [
        "unseen",
        "seen standard",
        "seen by_domain",
        "seen standard, not averaged",
        "seen by_domain, not averaged",
    ]
    assert domain_label("seen", ["seen"]) == "seen"


def test_main_metric():
    assert main_metric(["seen/aAcc", "seen/mIoU"]) == "mIoU"
    assert main_metric(["test/loss", "test/accuracy"]) == "accuracy"
    assert main_metric(["test/error", "test/loss"]) == "error"
    assert main_metric([]) is None


def test_a_domain_is_of_a_test_set_also_behind_the_prefix_of_a_metric():
    sets = ["seen", "unseen", "unseen/fog"]
    of = {
        "seen": "seen",
        "seen_by_domain/boundary": "seen",
        "global:seen/boundary": "seen",
        "unseen/fog/boundary": "unseen/fog",
        "other/boundary": None,
    }
    assert {domain: find_set(domain, sets) for domain in of} == of
