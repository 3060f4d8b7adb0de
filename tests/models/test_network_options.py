"""Networks of MMSegmentation: what of their configs acts, and what is refused by name."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from mmengine.registry import DefaultScope
from mmseg_network import ENCODER_DECODER, HEAD

from fedseg.errors import ConfigError
from fedseg.models.segmentor import Segmentor
from fedseg.runner.experiment import load_config

CROSS_ENTROPY = {"type": "CrossEntropyLoss", "use_sigmoid": False, "loss_weight": 1.0}
NORMALIZATION = {
    "type": "SegDataPreProcessor",
    "mean": [123.675, 116.28, 103.53],
    "std": [58.395, 57.12, 57.375],
    "bgr_to_rgb": True,
    "pad_val": 0,
    "seg_pad_val": 255,
    "size": (512, 1024),
}
SLIDE = {"mode": "slide", "crop_size": (8, 12), "stride": (4, 6)}


def segmentor(**changes) -> Segmentor:
    with DefaultScope.overwrite_default_scope("fedseg"):  # as in a run
        return Segmentor({**ENCODER_DECODER, **changes}, loss={"type": "CrossEntropy"}).eval()


WITHOUT_EFFECT = {
    "a loss": ({"decode_head": {**HEAD, "loss_decode": CROSS_ENTROPY}}, "decode_head.loss_decode"),
    "class weights of an auxiliary head": (
        {"auxiliary_head": [{**HEAD, "loss_decode": {**CROSS_ENTROPY, "class_weight": [1, 2, 3]}}]},
        "auxiliary_head[0].loss_decode",
    ),
    "a sampler": (
        {"decode_head": {**HEAD, "sampler": {"type": "OHEMPixelSampler"}}},
        "decode_head.sampler",
    ),
    "an ignored label": ({"decode_head": {**HEAD, "ignore_index": 0}}, "decode_head.ignore_index"),
    "a preprocessor": ({"data_preprocessor": NORMALIZATION}, "data_preprocessor"),
    "options of training": ({"train_cfg": {"num_points": 2048}}, "train_cfg"),
}
WRONG_WINDOWS = {
    "another mode": ({"mode": "flip"}, r"\.mode: must be 'whole' or 'slide'"),
    "windows without a stride": ({"mode": "slide", "crop_size": (8, 8)}, "needs crop_size and str"),
    "gaps between windows": ({**SLIDE, "stride": (9, 6)}, r"\.stride: must be at most crop_size"),
    "a crop of whole images": ({"crop_size": (8, 8)}, r"\.mode: must be 'slide'"),
    "one number": ({**SLIDE, "crop_size": 8}, r"\.crop_size: must be a"),
    "an unknown option": ({**SLIDE, "strides": (4, 6)}, r"\.strides: unknown argument"),
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_an_option_that_has_no_effect_is_refused(name):
    changes, field = WITHOUT_EFFECT[name]
    with pytest.raises(ConfigError) as caught:
        segmentor(**changes)
    assert str(caught.value).startswith(f"model.network.{field}: has no effect here: ")


def test_the_usual_ignored_label_is_accepted():
    segmentor(decode_head={**HEAD, "ignore_index": 255}, train_cfg={}, test_cfg={"mode": "whole"})


@pytest.mark.parametrize("name", WRONG_WINDOWS)
def test_windows_that_cannot_slide_are_refused(name):
    windows, message = WRONG_WINDOWS[name]
    with pytest.raises(ConfigError, match=rf"^model\.network\.test_cfg.*{message}"):
        segmentor(test_cfg=windows)


def test_windows_slide_over_test_images_as_in_mmsegmentation():
    """The mean of the logits of all windows that see a pixel, the last ones inside the image."""
    torch.manual_seed(0)
    model = segmentor(test_cfg=SLIDE)
    images, labels = torch.randn(2, 3, 14, 20), torch.zeros(2, 28, 40, dtype=torch.long)
    total, count = torch.zeros(2, 3, 14, 20), torch.zeros(14, 20)
    with torch.no_grad():
        for top in (0, 4, 6):
            for left in (0, 6, 8):
                window = images[:, :, top : top + 8, left : left + 12]
                logits = model.outputs(window, auxiliary=False)[0]
                total[:, :, top : top + 8, left : left + 12] += F.interpolate(
                    logits, (8, 12), mode="bilinear"
                )
                count[top : top + 8, left : left + 12] += 1
        mean = total / count
        torch.testing.assert_close(model(images, mode="tensor"), mean)
        expected = F.interpolate(mean, (28, 40), mode="bilinear").argmax(1)
        assert torch.equal(model(images, labels, mode="predict"), expected)
        whole = segmentor()
        whole.load_state_dict(model.state_dict())
        assert not torch.allclose(whole(images, mode="tensor"), mean)


# ---------------------------------------------------------------- a config file of MMSegmentation


def take(tmp_path, options=(), **changes):
    """The model of a config of idda_rainy with the network of a file."""
    model = {**ENCODER_DECODER, "data_preprocessor": NORMALIZATION, "test_cfg": SLIDE, **changes}
    (tmp_path / "unet.py").write_text(f"model = {model}")
    own = tmp_path / "own.py"
    own.write_text("setting = 'idda_rainy'\nmodel = dict(network='unet.py')\n")
    return load_config(own, options=options).model


def test_layers_windows_and_normalization_of_a_file_are_taken(tmp_path):
    with pytest.warns(UserWarning, match=r"of unet\.py .* here: data_preprocessor\.size; set"):
        model = take(tmp_path)
    assert model.network.test_cfg == SLIDE and "data_preprocessor" not in model.network
    assert model.data_preprocessor.type == "ImagePreprocessor"
    assert model.data_preprocessor.mean == pytest.approx([0.485, 0.456, 0.406])
    assert model.data_preprocessor.std == pytest.approx([0.229, 0.224, 0.225])


@pytest.mark.filterwarnings("ignore:model.network")
def test_a_normalization_beside_the_network_holds(tmp_path):
    model = take(tmp_path, options=["model.data_preprocessor.mean=[0.1, 0.2, 0.3]"])
    assert model.data_preprocessor.mean == [0.1, 0.2, 0.3]


def test_what_of_a_file_does_not_apply_is_named(tmp_path):
    head = {**HEAD, "loss_decode": CROSS_ENTROPY}
    with pytest.warns(UserWarning, match=r"here: decode_head\.loss_decode, .*, pretrained; set"):
        model = take(tmp_path, decode_head=head, pretrained="open-mmlab://resnet50_v1c")
    assert model.network.pretrained is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        take(tmp_path, data_preprocessor={**NORMALIZATION, "size": None})


@pytest.mark.filterwarnings("ignore:model.network")
def test_another_loss_of_a_file_is_refused(tmp_path):
    loss = {**CROSS_ENTROPY, "class_weight": [1.0, 2.0, 3.0]}
    network = take(tmp_path, decode_head={**HEAD, "loss_decode": loss}).network.to_dict()
    with pytest.raises(ConfigError, match=r"^model\.network\.decode_head\.loss_decode: has no eff"):
        Segmentor(network)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bgr_to_rgb": False}, "bgr_to_rgb: must be True"),
        ({"seg_pad_val": 0}, "seg_pad_val: must be 255"),
        ({"mean": None}, "mean: must be an instance of Sequence"),
        ({"batch_augments": [{"type": "Mixup"}]}, "batch_augments: has no effect here"),
    ],
)
def test_a_preprocessor_that_does_more_is_refused(tmp_path, changes, message):
    with pytest.raises(
        ConfigError, match=rf"model\.network: unet\.py: data_preprocessor\.{message}"
    ):
        take(tmp_path, data_preprocessor={**NORMALIZATION, **changes})
