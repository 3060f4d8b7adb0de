"""Confident pixels against their transcription, and the teacher of a run."""

import numpy as np
import pytest
import torch
import toyseg
from pixel_runs import ERASED, changed

from fedseg.local_losses.self_training import confident
from fedseg.runner.build import build_trainer
from fedseg.units import ceil_share


@pytest.mark.parametrize("share", [0.07, 0.29, 0.66, 1 / 3])
def test_the_share_of_confident_pixels_is_exact(share):
    """7 of 100 pixels for 0.07, whose float product is 7.000000000000001."""
    for count in (1, 3, 7, 50, 99, 100):
        logits = torch.stack([torch.linspace(1, 2, count), torch.zeros(count)]).view(1, 2, 1, count)
        found = confident(logits, torch.ones(1, 1, count, dtype=torch.bool), 1.0, share)
        assert (found == 0).sum() == ceil_share(share, count)
        assert set(found[found != 0].tolist()) <= {-1}


@pytest.mark.parametrize(("threshold", "share"), [(0.9, 0.66), (0.4, 0.0), (1.0, 0.5)])
def test_confident_pixels_equal_their_transcription(threshold, share):
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(2, 3, 6, 7, generator=generator, dtype=torch.float64)
    erased = torch.rand(2, 6, 7, generator=generator) < 0.7
    found = confident(logits, erased, threshold, share)
    probability = logits.softmax(1).numpy()
    for image in range(2):
        best, guess = probability[image].max(0), probability[image].argmax(0)
        for at in np.ndindex(6, 7):
            rivals = best[(guess == guess[at]) & erased[image].numpy()]
            rank = (rivals > best[at]).sum()
            counts = best[at] > threshold or rank < np.ceil(share * len(rivals))
            expected = guess[at] if counts and erased[image][at] else -1
            assert int(found[image][at]) == expected, (image, at)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_teacher_is_the_initial_model_then_an_average(small_config, tmp_path, dtype):
    """Clients without labels: nothing of their label maps reaches the loss."""
    loss = {"type": "SelfTraining", "every": 2, "average_from": 4, "share": 0.5}
    partition = {"_delete_": True, "type": "NaturalPartition", "unlabelled": True}
    config = changed(
        small_config,
        tmp_path,
        dtype=dtype,
        local_loss=loss,
        train_dataloader={"partition": partition},
        train_cfg={"max_rounds": 6},
        averaging=None,
        default_hooks={"checkpoint": {"keep_last": 10}},
    )
    trainer = build_trainer(config)
    initial = trainer.flat.w.double()
    (batch,) = trainer.data.sample_batches([[0, 1]])
    assert set(batch["data_samples"].unique().tolist()) == {ERASED}
    toyseg.train(config)
    slots = {slot.name: slot for slot in trainer.flat.slots}
    states = [toyseg.checkpoint(config, r) for r in range(1, 7)]
    teachers = [state["server"]["state"]["teacher"] for state in states]
    assert torch.equal(teachers[0], initial)
    for name, slot in slots.items():
        w = [state["state_dict"][name].double() for state in states]
        kept = [slot.view(teacher) for teacher in teachers]
        assert torch.equal(kept[1], w[1]) and torch.equal(kept[2], w[1])
        assert torch.equal(kept[3], w[3])
        torch.testing.assert_close(kept[5], (w[3] + w[5]) / 2)
    assert all(line["loss"] > 0 for line in toyseg.history(config))
