"""SiloBN and FedBN over every BatchNorm layer; statistics of a domain; standard evaluation."""

import numpy as np
import pytest
import torch
import toyseg
from mmengine.evaluator import BaseMetric

from fedseg.batchnorm import batchnorm_layers
from fedseg.core.local_state import FedBN, SiloBN
from fedseg.errors import ConfigError
from fedseg.hooks import FederatedHook
from fedseg.registry import HOOKS, METRICS, MODELS

GROUPS = {None: None, "SiloBN": [SiloBN.group], "FedBN": [FedBN.group]}
STATISTICS = ["bn1.running_mean", "bn1.running_var", "renamed.running_mean", "renamed.running_var"]
COUNTERS = ["bn1.num_batches_tracked", "renamed.num_batches_tracked"]
AFFINE = ["bn1.weight", "bn1.bias", "renamed.weight", "renamed.bias"]


@HOOKS.register_module()
class BeforeAndAfter(FederatedHook):
    """The model's state dict at the begin and at the end of every client's training."""

    priority = "LOWEST"

    def __init__(self) -> None:
        self.seen: dict[tuple[int, str], list[dict[str, torch.Tensor]]] = {}

    def _note(self, runner, client):
        self.seen.setdefault((runner.round, client.id), []).append(runner.flat.state_dict())

    before_client = _note

    def after_client(self, runner, client, update):
        self._note(runner, client)


def config_for(tmp_path, policy, **changes):
    defaults = {
        **toyseg.PLAIN,
        "personal": GROUPS[policy],
        "client_sampler": {
            "_delete_": True,
            "type": "FixedSampler",
            "participants": [["a", "c"], ["a", "b", "c"], ["b", "f"], ["a", "f"]],
        },
        "train_cfg": {"max_rounds": 4, "local_epochs": 1},
        "custom_hooks": [{"type": "BeforeAndAfter"}],
    }
    return toyseg.settings(tmp_path, **toyseg.merge(defaults, changes))


def run(tmp_path, policy, **changes):
    config = config_for(tmp_path, policy, **changes)
    runner = toyseg.train(config)
    hook = next(h for h in runner.hooks if isinstance(h, BeforeAndAfter))
    return config, runner, hook.seen


@pytest.mark.parametrize("policy", ["SiloBN", "FedBN"])
def test_statistics_stay_with_the_client(tmp_path, policy):
    config, _, seen = run(tmp_path, policy)
    fresh = toyseg.ToySegNet().state_dict()
    local = STATISTICS + COUNTERS + (AFFINE if policy == "FedBN" else [])
    last: dict[str, dict[str, torch.Tensor]] = {}
    for (_, client), (before, after) in sorted(seen.items()):
        expected = last.get(client, fresh)
        for name in local:
            assert torch.equal(before[name], expected[name]), (client, name)
            assert not torch.equal(after[name], before[name]), (client, name)
        last[client] = after
    final = toyseg.checkpoint(config)["state_dict"]
    for name in local:
        assert torch.equal(final[name], fresh[name]), "the server has none"


@pytest.mark.parametrize("policy", ["SiloBN", "FedBN"])
def test_the_rest_is_averaged(tmp_path, policy):
    config, _, seen = run(tmp_path, policy)
    shared = ["conv1.weight", "gate.bias", "conv2.weight"] + AFFINE * (policy == "SiloBN")
    plan = config["client_sampler"]["participants"]
    for round_, clients in enumerate(plan[:-1], start=1):
        sizes = [toyseg.USERS[c] for c in clients]
        following = seen[round_ + 1, plan[round_][0]][0]
        for name in shared:
            trained = [seen[round_, c][1][name].double() for c in clients]
            expected = sum(n * t for n, t in zip(sizes, trained, strict=True)) / sum(sizes)
            torch.testing.assert_close(
                following[name].double(), expected, rtol=1e-5, atol=1e-6, msg=name
            )
            # a bias that BatchNorm subtracts again has a gradient of zero, up to rounding
            if len(clients) > 1 and name != "gate.bias":
                assert not torch.equal(trained[0], trained[1])


def test_without_a_policy_buffers_are_averaged(tmp_path):
    _, _, seen = run(tmp_path, None)
    for name in STATISTICS:
        a, c = (seen[1, k][1][name].double() for k in "ac")
        expected = (5 * a + 7 * c) / 12
        torch.testing.assert_close(seen[2, "b"][0][name].double(), expected, rtol=1e-6, atol=1e-7)
        assert torch.equal(seen[2, "b"][0][name], seen[2, "a"][0][name])
    # 5 images in batches of 3 and 2, 7 in 3 and 3 (the last one is left out): 2 batches each
    assert seen[2, "a"][0]["bn1.num_batches_tracked"] == 2


@pytest.mark.parametrize("policy", ["SiloBN", "FedBN"])
def test_traffic(tmp_path, policy):
    config, _, _ = run(tmp_path, policy)
    parameters = sum(p.numel() for p in toyseg.ToySegNet().parameters())
    vector = 4 * (parameters - 24 * (policy == "FedBN"))
    for line in toyseg.history(config):
        participants = len(line["participants"])
        assert line["bytes_down"] == line["bytes_up"] == participants * vector


@pytest.mark.parametrize("policy", ["SiloBN", "FedBN"])
def test_a_rejected_client_keeps_its_old_statistics(tmp_path, policy):
    poison = {"type": "PoisonHook", "clients": ["a"], "round_": 2}
    _, _, seen = run(tmp_path, policy, custom_hooks=[poison, {"type": "BeforeAndAfter"}])
    after_first, in_fourth = seen[1, "a"][1], seen[4, "a"][0]
    for name in STATISTICS + COUNTERS + (AFFINE if policy == "FedBN" else []):
        assert torch.equal(in_fourth[name], after_first[name]), name


@pytest.mark.parametrize("policy", ["SiloBN", "FedBN"])
def test_a_model_without_batchnorm_is_refused(tmp_path, policy):
    config = config_for(tmp_path, policy, model={"norm": False})
    with pytest.raises(
        ConfigError, match=rf"personal: .*{policy}.* needs .*ToySegNet.*leave it out"
    ):
        toyseg.train(config)


# ---------------------------------------------------------------- evaluation


def fake_state(runner, mean, var, affine=(1.0, 0.0)):
    """A client's state with every layer's statistics at given values."""
    local_state = runner.local_state
    buffers = torch.zeros_like(runner.flat.buffers)
    for slot in runner.flat.buffer_slots:
        buffers[slot.span] = mean if slot.name.endswith("mean") else var
    w = torch.zeros_like(runner.flat.w)
    for slot in runner.flat.slots:
        w[slot.span] = affine[0] if slot.name.endswith("weight") else affine[1]
    return {
        "personal.buffers": buffers[local_state.buffer_mask],
        "personal.parameters": w[local_state.parameter_mask],
    }


def built(tmp_path, policy):
    runner = toyseg.runner(config_for(tmp_path, policy))
    runner.build_federation()
    return runner, runner.local_state


def slots_of(runner, vector):
    return {s.name: s.view(vector) for s in runner.flat.buffer_slots}


def test_pooled_statistics_are_those_of_the_union(tmp_path):
    """Mean and variance of several groups of samples thrown together."""
    runner, local_state = built(tmp_path, "SiloBN")
    torch.manual_seed(0)
    groups = [torch.randn(n).double() * s + m for n, m, s in ((50, 3, 1), (10, -4, 2), (90, 0, 5))]
    states = [
        (len(g), fake_state(runner, float(g.mean()), float(g.var(correction=0)))) for g in groups
    ]
    states.append((1000, {}))  # never trained: left out
    w, buffers = local_state.personal_model(runner.server.w, runner.server.buffers, states)
    union = torch.cat(groups)
    for name, value in slots_of(runner, buffers).items():
        expected = union.mean() if name.endswith("mean") else union.var(correction=0)
        torch.testing.assert_close(value, expected.float().expand(6), rtol=1e-5, atol=1e-5)
    assert torch.equal(w, runner.server.w)
    one = local_state.personal_model(w, runner.server.buffers, states[:1])[1]
    assert torch.equal(one[local_state.buffer_mask], states[0][1]["personal.buffers"])
    for nobody in ([(3, {})], []):
        assert local_state.personal_model(w, buffers, nobody) is None


def predictions(runner, state_dict, indices, batch):
    """Class maps of some seen images by a plain model, with the batch's statistics if asked."""
    model = toyseg.ToySegNet()
    model.load_state_dict(state_dict)
    model.eval()
    if batch:
        for layer in batchnorm_layers(model).values():
            layer.train()
    dataset = toyseg.ToyScenes(test_mode=True)
    images = torch.stack([dataset[int(i)]["inputs"] for i in indices])
    with torch.no_grad():
        return model(**model.data_preprocessor({"inputs": images}, False), mode="predict")


def evaluated(runner):
    """Predictions of images by evaluated domain, and the batches that they were made in."""
    got, batches = {}, {}

    def keep(test, prefix, chosen, predicted):
        got.setdefault(prefix, {}).update(zip(chosen, predicted, strict=True))
        batches.setdefault(prefix, []).append(chosen)

    runner.val_loop.domains.run(runner.server.w, runner.server.buffers, keep)
    return got, batches


@pytest.mark.parametrize("policy", ["SiloBN", "FedBN"])
def test_by_domain_uses_the_clients_of_the_domain(tmp_path, policy):
    """Domains of one client (east never trained, west is f), of two (north is a and b)."""
    config, runner, seen = run(tmp_path, policy)
    got, _ = evaluated(runner)
    assert set(got) == {"unseen", "seen", "seen_by_domain"}
    assert len(got["seen_by_domain"]) == len(got["seen"]) == 33

    final, last = toyseg.checkpoint(config)["state_dict"], {}
    for (_, client), (_, after) in sorted(seen.items()):
        last[client] = after
    local = STATISTICS + (AFFINE if policy == "FedBN" else [])
    f_images = [i for i, user in enumerate(toyseg.ToyScenes().users) if user == "f"]
    own = {**final, **{name: last["f"][name] for name in local}}
    for i, expected in zip(f_images, predictions(runner, own, f_images, False), strict=True):
        assert torch.equal(got["seen_by_domain"][i], expected)

    pooled = dict(final)
    for layer in ("bn1", "renamed"):
        mean, var = f"{layer}.running_mean", f"{layer}.running_var"
        m = (5 * last["a"][mean].double() + 4 * last["b"][mean].double()) / 9
        v = sum(
            n * (last[c][var].double() + (last[c][mean].double() - m) ** 2)
            for n, c in ((5, "a"), (4, "b"))
        )
        pooled[mean], pooled[var] = m.float(), (v / 9).float()
    if policy == "FedBN":
        for name in AFFINE:
            pooled[name] = (
                (5 * last["a"][name].double() + 4 * last["b"][name].double()) / 9
            ).float()
    for i, expected in zip(range(9), predictions(runner, pooled, range(9), False), strict=True):
        agree = (got["seen_by_domain"][i] == expected).float().mean()
        assert agree > 0.99, "up to rounding of the pooled statistics"

    details = runner.val_loop.domains.details["seen_by_domain"]
    assert details["domains"] == 4 and details["domains_with_statistics"] == 3

    # east's only client never trained: its images are judged as in the standard evaluation
    for i in [i for i, user in enumerate(toyseg.ToyScenes().users) if user == "e"]:
        assert torch.equal(got["seen_by_domain"][i], got["seen"][i])


@MODELS.register_module()
class ListedToyNet(toyseg.ToySegNet):
    """Predicts a list of samples, as MMEngine's models do."""

    def forward(self, inputs, data_samples=None, mode="tensor"):
        out = super().forward(inputs, data_samples, mode)
        return [{"pred": classes} for classes in out] if mode == "predict" else out


@METRICS.register_module()
class ListedAccuracy(BaseMetric):
    """Per cent of all pixels that are right, from lists."""

    def process(self, data_batch, data_samples):
        for label, sample in zip(data_batch["data_samples"], data_samples, strict=True):
            valid = label != 255
            right = ((sample["pred"] == label) & valid).sum()
            self.results.append((int(right), int(valid.sum())))

    def compute_metrics(self, results):
        right, total = (sum(column) for column in zip(*results, strict=True))
        return {"accuracy": 100 * right / total, "images": len(results)}


def test_lists_of_predictions_belong_to_their_images(tmp_path):
    """Some images of a batch are those of the domain that never trained; lists are cut as tensors.

    The same model, data and pixels: the figures of tensors.
    """
    tensors = toyseg.history(run(tmp_path / "tensors", "SiloBN")[0])[-1]["metrics"]
    listed = {"model": {"type": "ListedToyNet"}, "val_evaluator": {"type": "ListedAccuracy"}}
    lists = toyseg.history(run(tmp_path / "lists", "SiloBN", **listed)[0])[-1]["metrics"]
    assert {n: v for n, v in lists.items() if n.endswith("accuracy")} == tensors
    assert lists["seen_by_domain/images"] == lists["seen/images"] == 33


def test_standard_uses_the_batchs_statistics_and_touches_nothing(tmp_path):
    config, runner, _ = run(tmp_path, "SiloBN")
    before = toyseg.client_states(config)["clients"]
    server = runner.server.buffers.clone()
    got, batches = evaluated(runner)
    final = toyseg.checkpoint(config)["state_dict"]
    assert [len(b) for b in batches["seen"]] == [4] * 6 + [3] * 3
    order = [i for batch in batches["seen"] for i in batch]
    assert sorted(order) == list(range(33)) != order
    domains = toyseg.ToyScenes().domains
    mixed = [len({domains[i] for i in batch}) for batch in batches["seen"]]
    assert np.mean(mixed) > 2  # sorted, most batches would be one domain
    for batch in batches["seen"]:
        for i, expected in zip(batch, predictions(runner, final, batch, True), strict=True):
            assert torch.equal(got["seen"][i], expected)
    assert torch.equal(runner.server.buffers, server)
    after = {key: runner.store.get(key) for key in runner.store.keys()}  # noqa: SIM118 - no dict
    assert toyseg.differences(before, after) == []
    assert all(m.track_running_stats for m in batchnorm_layers(runner.model).values())
    assert not any(m.training for m in runner.model.modules())


def test_standard_leaves_layers_alone_that_never_see_a_batch(tmp_path):
    changes = {"model": {"type": "FrozenToySegNet"}}
    _, runner, _ = run(tmp_path, "SiloBN", train_cfg={"max_rounds": 1}, **changes)
    model, images = toyseg.ToySegNet(), runner.val_loop.sets[0].dataset
    model.load_state_dict(runner.flat.state_dict(runner.server.w, runner.server.buffers))
    model.eval().renamed.train()

    def check(test, prefix, chosen, predicted):
        inputs = torch.stack([images[i]["inputs"] for i in chosen])
        data = model.data_preprocessor({"inputs": inputs}, False)
        assert torch.equal(predicted, model(**data, mode="predict"))

    w, buffers = runner.server.w, runner.server.buffers
    runner.val_loop.domains.run(w, buffers, check, runner.val_loop.sets[:1])


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("images", [1, 3])
def test_small_test_sets_can_be_judged_by_batch_statistics(tmp_path, size, images):
    """A batch of one has no statistics over a vector: none may arise where it can be avoided."""
    few = {"type": "ToyScenes", "test_mode": True, "users": {"a": images}}
    loader = {"_delete_": True, "seen": {"batch_size": size, "dataset": few}}
    config = config_for(tmp_path, "SiloBN", val_dataloader=loader)
    if images == 1 or size == 1:
        with pytest.raises(
            ConfigError,
            match=r"val_dataloader\.seen: a batch of one.*stay with the clients.*at least 2",
        ):
            toyseg.train(config)
    else:
        toyseg.train(config)


def test_a_tested_checkpoint_has_the_figures_of_its_round(tmp_path):
    """Long after the files of its clients' states are gone, too."""
    changes = {"default_hooks": {"checkpoint": {"interval": 1, "keep_every": 1}}}
    changes |= {"train_cfg": {"val_interval": 1}}
    changes |= {"averaging": {"type": "SWA", "start": 2, "cycle": 1}}
    for policy in ("SiloBN", "FedBN"):
        config, _, _ = run(tmp_path / policy, policy, **changes)
        for record in toyseg.history(config):
            path = tmp_path / policy / f"run/checkpoints/round_{record['round']:06d}.pth"
            figures = toyseg.runner(config).test(path)
            assert figures == record["metrics"] and "seen_by_domain/accuracy" in figures
        config["dtype"] = "float64"  # the clients' statistics are stored as they were trained
        assert toyseg.runner(config).test(path) == pytest.approx(figures, abs=1)


def test_dropped_test_images(tmp_path):
    """Only where batch statistics normalize, and then always the same ones."""
    loaders = {name: {"drop_last": True} for name in ("seen", "unseen")}
    _, runner, _ = run(tmp_path, "SiloBN", val_dataloader=loaders)
    one, two = (evaluated(runner)[1] for _ in range(2))
    assert one == two
    counted = [i for batch in one["seen"] for i in batch]
    assert len(counted) == 32 and len(set(counted)) == 32
    with pytest.raises(ConfigError, match=r"val_dataloader\.seen\.drop_last"):
        run(tmp_path / "b", "SiloBN", val_dataloader={"seen": {"drop_last": "no"}})


def test_some_layers_only(tmp_path):
    """The others are averaged, and normalize by the averaged statistics in every evaluation."""
    statistics = ["bn1.running_*", "bn1.num_batches_tracked"]
    config, runner, _ = run(tmp_path / "some", None, personal=statistics)
    state = next(iter(toyseg.client_states(config)["clients"].values()))
    assert sum(tensor.numel() for tensor in state.values()) == 2 * 6 + 1  # mean, variance, counter
    for name in ("renamed.running_mean", "renamed.running_var"):
        final = runner.flat.state_dict(runner.server.w, runner.server.buffers)[name]
        assert not torch.equal(final, torch.zeros_like(final))
    assert runner.local_state.norm_layers == ["bn1"]
    seen_modes = []
    layers = batchnorm_layers(runner.model)
    layers["bn1"].register_forward_pre_hook(
        lambda layer, _: seen_modes.append(("bn1", layer.training))
    )
    layers["renamed"].register_forward_pre_hook(
        lambda layer, _: seen_modes.append(("renamed", layer.training))
    )
    domains = runner.val_loop.domains
    domains.run(runner.server.w, runner.server.buffers, sets=domains.sets[:1])
    assert ("bn1", True) in seen_modes and ("renamed", True) not in seen_modes
