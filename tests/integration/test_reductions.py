"""One client is centralized training, BatchNorm and augmentation included; float64 is exact."""

import pytest
import torch
import toyseg

from fedseg.core.client_data import Job

ALL = {
    "train_dataloader": {"partition": {"_delete_": True, "type": "SinglePartition"}},
    "client_sampler": {"_delete_": True, "type": "UniformSampler", "clients_per_round": "all"},
    "val_dataloader": None,
    "val_evaluator": None,
}
ROUNDS = 4


def federated(tmp_path, **changes):
    config = toyseg.settings(
        tmp_path,
        **toyseg.merge(
            {**toyseg.PLAIN, **ALL, "train_cfg": {"max_rounds": ROUNDS, "local_epochs": 1}}, changes
        ),
    )
    return config, toyseg.train(config)


def centralized(runner, dtype, rounds=ROUNDS):
    """A plain torch loop over the batches that the engine's data stream plans."""
    from fedseg.core.seeds import seed_for

    torch.manual_seed(seed_for(0, "build"))
    model = toyseg.ToySegNet().to(dtype)
    torch.manual_seed(seed_for(0, "init"))
    model.init_weights()
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    dataset = runner.data.dataset
    model.train()
    for round_ in range(1, rounds + 1):
        for keys in runner.data.batch_keys(Job(round_, 0, 0)):
            batch = torch.utils.data.default_collate([dataset[key] for key in keys])
            optimizer.zero_grad()
            model(**model.data_preprocessor(batch, True), mode="loss")["loss"].backward()
            optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_client_is_centralized_training(tmp_path, dtype):
    """Up to the rounding of ``start - (start - w)``, once per round."""
    config, runner = federated(tmp_path, dtype=dtype)
    expected = centralized(runner, getattr(torch, dtype))
    got = toyseg.checkpoint(config)["state_dict"]
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    for name, tensor in expected.items():
        torch.testing.assert_close(got[name], tensor, rtol=tolerance, atol=tolerance, msg=name)
    assert got["bn1.num_batches_tracked"] == expected["bn1.num_batches_tracked"] > 0


def test_the_first_rounds_statistics_are_the_same_bits(tmp_path):
    config, runner = federated(tmp_path, train_cfg={"max_rounds": 1})
    expected = centralized(runner, torch.float32, rounds=1)
    got = toyseg.checkpoint(config)["state_dict"]
    for name in expected:
        if "running" in name or "num_batches" in name:
            assert torch.equal(got[name], expected[name]), name
        else:
            torch.testing.assert_close(got[name], expected[name], rtol=1e-6, atol=1e-7)


def test_silobn_of_one_client_is_fedavg_of_one_client(tmp_path):
    """Statistics that stay with the only client are the global ones."""
    silo, _ = federated(tmp_path / "a", personal=toyseg.SILOBN)
    plain, _ = federated(tmp_path / "b")
    state = toyseg.client_states(silo)["clients"]["all"]
    one, two = (toyseg.checkpoint(c)["state_dict"] for c in (silo, plain))
    for name, tensor in two.items():
        if "running" not in name and "num_batches" not in name:
            assert torch.equal(one[name], tensor), name
    means = torch.cat([two["bn1.running_mean"], two["bn1.running_var"]])
    assert torch.equal(state["personal.buffers"][:12], means)
