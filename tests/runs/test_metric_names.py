"""What metrics and domains are called."""

from fedseg.runs.metric_names import domain_label, evaluated_set, main_metric


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


def test_test_sets_of_domains():
    assert evaluated_set("global:seen_by_domain") == "seen"
    assert evaluated_set("unseen_0001TP") == "unseen_0001TP"


def test_main_metric():
    assert main_metric(["seen/aAcc", "seen/mIoU"]) == "mIoU"
    assert main_metric(["test/loss", "test/accuracy"]) == "accuracy"
    assert main_metric(["test/error", "test/loss"]) == "error"
    assert main_metric([]) is None
