"""Features of frozen encoders are computed once, and a run has the bits of one without them."""

import contextlib
import copy
import shutil

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
    assert counts[0] > counts[1] and counts[1] <= files + 2 and counts[2] == 0
    for config in runs[1:]:
        assert toyseg.run_differences(runs[0], config) == []


def test_other_weights_have_other_features(tmp_path):
    data = toycls.write_data(tmp_path / "data")
    cache = {"feature_cache": str(tmp_path / "cache")}
    for seed in (0, 1):
        config = classification(tmp_path / str(seed), data, **cache)
        toyseg.train({**config, "randomness": {"seed": seed}})
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_dropout_in_training_is_that_of_a_run_without(tmp_path):
    data, options = (
        toycls.write_data(tmp_path / "data"),
        {**ENCODER["options"], "drop_path_rate": 0.5},
    )
    runs = [
        toyseg.merge(
            classification(tmp_path / name, data, options=options, **cache),
            {"train_cfg": {"max_rounds": 3, "val_interval": 1, "val_initial": True}},
        )
        for name, cache in [("plain", {}), ("cached", {"feature_cache": str(tmp_path / "cache")})]
    ]
    toyseg.train(runs[0])
    with pytest.warns(UserWarning, match="draws random numbers in training, so nothing is kept"):
        toyseg.train(runs[1])
    assert toyseg.run_differences(*runs) == []
    assert list((tmp_path / "cache").rglob("*.pt"))  # of tests


class DividedByBatchSize(torch.nn.Module):
    def forward(self, x):
        return x / len(x)


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (torch.nn.Dropout(0.5), {True: "encoder draws random numbers in training"}),
        (
            DividedByBatchSize(),
            dict.fromkeys((True, False), "gives an image alone other bits than in a batch"),
        ),
    ],
)
def test_modes_in_which_features_would_change_keep_none(tmp_path, part, told):
    module = torch.nn.Sequential(torch.nn.LayerNorm(8), part)
    plain, images = copy.deepcopy(module), torch.rand(50, 8)
    cache = FeatureCache(module, "encoder", tmp_path)
    for training in (False, True):  # a run with val_initial begins with tests
        context = contextlib.nullcontext()
        if training in told:
            context = pytest.warns(UserWarning, match=told[training])
        with context:
            for batch in (images[:1], images, images):
                outputs = []
                for one in (module, plain):
                    torch.manual_seed(0)
                    outputs.append(torch.cat([one.train(training)(batch), torch.rand(1, 8)]))
                assert torch.equal(*outputs)
    assert cache.active == {training: training not in told for training in (False, True)}
    assert any(tmp_path.rglob("*.pt")) == any(cache.active.values())


DAMAGE = {
    "empty": lambda file, _: file.write_bytes(b""),
    "cut": lambda file, _: file.write_bytes(file.read_bytes()[:-1]),
    "a bit of each kilobyte": lambda file, _: file.write_bytes(
        bytes(byte ^ 64 * (place % 1024 == 900) for place, byte in enumerate(file.read_bytes()))
    ),
    "of another image": lambda file, other: shutil.copy(other, file),
    "without a checksum": lambda file, _: torch.save(torch.zeros(3), file),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_written_again(tmp_path, name):
    module, sizes, images = torch.nn.LayerNorm(300).eval(), [], torch.rand(4, 300)
    compute = module.forward
    module.forward = lambda images: (sizes.append(len(images)), compute(images))[1]
    FeatureCache(module, "encoder", tmp_path)
    expected, _ = module(images), module(images)
    file, other, *_ = tmp_path.rglob("*.pt")
    content = file.read_bytes()
    DAMAGE[name](file, other)
    for _ in range(2):
        assert torch.equal(module(images), expected)
    assert file.read_bytes() == content and sizes == [4, 1, 1]


@pytest.mark.parametrize("place", ["torch.backends.cpu.get_cpu_capability", "timm.__version__"])
def test_other_processors_and_packages_have_other_features(tmp_path, monkeypatch, place):
    made = timm.create_model("vit_tiny_patch16_224", **VIT)
    first = FeatureCache(made, "encoder", tmp_path).folder
    monkeypatch.setattr(place, lambda: "OTHER")
    assert FeatureCache(made, "encoder", tmp_path).folder != first


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"train_dataloader": {"transforms": toycls.CROP_AND_FLIP}}, "random augmentation"),
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
    with pytest.raises(ConfigError, match=r"model\.feature_cache: .*random augmentation"):
        toyseg.train(config)
