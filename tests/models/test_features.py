"""Features of frozen encoders are computed once, and a run has the bits of one without them."""

import pytest
import timm
import torch
import toycls
import toyseg

from fedseg.errors import ConfigError
from fedseg.models.features import FeatureCache

VIT = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 2}
ENCODER = {
    "encoder": "vit_tiny_patch16_224",
    "num_classes": 4,
    "options": {**VIT, "dynamic_img_size": True},
}


def classification(folder, data, **model):
    model = {"type": "TimmClassifier", **ENCODER, "freeze": "backbone", **model, "_delete_": True}
    changes = {"model": model, "train_dataloader": {"transforms": [toycls.NORMALIZE]}}
    return toycls.settings(folder, data, train_cfg={"max_rounds": 3}, **changes)


def segmentation(folder, _, **model):
    network = {"type": "TimmSegmentation", **ENCODER, "num_classes": 3}
    loss, frozen = {"type": "CrossEntropy"}, {"freeze": "network.backbone", **model}
    model = {"type": "Segmentor", "network": network, "loss": loss, **frozen, "_delete_": True}
    plain = {"train_dataloader": {"dataset": {"test_mode": True}}, "batchnorm": None}
    return toyseg.settings(folder, model=model, train_cfg={"max_rounds": 3}, **plain)


@pytest.fixture
def seen(monkeypatch):
    """How many images each call of an encoder's blocks gets."""
    sizes, forward = [], timm.models.vision_transformer.PatchEmbed.forward

    def counted(self, x):
        sizes.append(len(x))
        return forward(self, x)

    monkeypatch.setattr(timm.models.vision_transformer.PatchEmbed, "forward", counted)
    return sizes


@pytest.mark.parametrize("make", [classification, segmentation])
def test_each_image_is_seen_once_and_the_bits_are_those_without(tmp_path, seen, make):
    data = toycls.write_data(tmp_path / "data")
    cache = {"feature_cache": str(tmp_path / "cache")}
    runs = [make(tmp_path / "plain", data)]
    runs += [make(tmp_path / name, data, **cache) for name in ("first", "second")]
    counts = []
    for config in runs:
        toyseg.train(config)
        counts.append(sum(seen))
        seen.clear()
    files = len(list((tmp_path / "cache").rglob("*.pt")))
    assert counts[0] > counts[1] and counts[1] <= files + 20 and counts[2] <= 20  # of a first batch
    for config in runs[1:]:
        assert toyseg.run_differences(runs[0], config) == []


def test_other_weights_have_other_features(tmp_path):
    data = toycls.write_data(tmp_path / "data")
    cache = {"feature_cache": str(tmp_path / "cache")}
    for seed in (0, 1):
        config = classification(tmp_path / str(seed), data, **cache)
        toyseg.train({**config, "randomness": {"seed": seed}})
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_module_whose_bits_depend_on_the_batch_is_told(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
    cache = FeatureCache(module, "encoder", tmp_path)
    with pytest.warns(UserWarning, match="encoder gives an image alone other bits"):
        module(torch.ones(50, 2))
    assert not cache.active and module(torch.ones(3, 2)).shape == (3, 2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"train_dataloader": {"transforms": toycls.CROP_AND_FLIP}}, "augmented at random"),
        ({"model": {"freeze": None}}, "names as a whole, such as 'backbone', not none"),
        ({"model": {"freeze": ["backbone.blocks.0", "backbone.norm"]}}, "blocks.0, backbone.norm"),
        ({"model": {"freeze": "backbone.blocks.1"}}, "layers before .*blocks.1 are trained"),
    ],
)
def test_where_features_do_not_stay_it_is_refused(tmp_path, changes, told):
    data = toycls.write_data(tmp_path / "data")
    config = classification(tmp_path, data, feature_cache=str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match=f"model.feature_cache: .*{told}"):
        toyseg.train(toyseg.merge(config, changes))


def test_random_pipelines_of_streamed_images_are_noticed(tmp_path):
    config = segmentation(tmp_path, None, feature_cache=str(tmp_path / "cache"))
    config["train_dataloader"]["dataset"]["test_mode"] = False
    with pytest.raises(ConfigError, match=r"model\.feature_cache: .*augmented at random"):
        toyseg.train(config)
