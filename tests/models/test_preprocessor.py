"""Normalization, types and layouts of preprocessed batches."""

import pytest
import torch

from fedseg.errors import ConfigError, DataError
from fedseg.models import ImagePreprocessor, Segmentor
from fedseg.registry import MODELS, build

MEAN, STD = (0.3257, 0.3690, 0.3223), (0.2112, 0.2148, 0.2115)


def batch(size=(5, 7)):
    generator = torch.Generator().manual_seed(0)
    return {
        "inputs": torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8, generator=generator),
        "data_samples": torch.randint(0, 256, (2, *size), dtype=torch.uint8, generator=generator),
    }


def test_normalizes_in_the_models_dtype():
    for dtype in (torch.float32, torch.float64):
        preprocessor = ImagePreprocessor(MEAN, STD).to(dtype)
        raw = batch()
        kept = raw["inputs"].clone()
        out = preprocessor(raw, training=True)
        mean, std = (torch.tensor(v, dtype=torch.float64).view(3, 1, 1) for v in (MEAN, STD))
        expected = (raw["inputs"].double() / 255 - mean) / std
        assert out["inputs"].dtype == dtype
        tolerance = 1e-14 if dtype == torch.float64 else 1e-6
        torch.testing.assert_close(out["inputs"].double(), expected, rtol=0, atol=tolerance)
        assert out["inputs"].is_contiguous(memory_format=torch.channels_last)
        assert out["data_samples"].dtype == torch.int64
        assert torch.equal(out["data_samples"], raw["data_samples"].long())
        assert torch.equal(raw["inputs"], kept)  # the loader's tensor is not written to


def test_follows_its_model():
    network = torch.nn.Conv2d(3, 4, 1)
    model = Segmentor(network, data_preprocessor={"type": "ImagePreprocessor"}).double()
    assert model.data_preprocessor(batch())["inputs"].dtype == torch.float64
    assert not any("data_preprocessor" in name for name in model.state_dict())


def test_pairs_and_batches_without_labels():
    preprocessor, raw = ImagePreprocessor(MEAN, STD), batch()
    pair = preprocessor((raw["inputs"], raw["data_samples"]))
    assert torch.equal(pair["data_samples"], raw["data_samples"].long())
    assert set(preprocessor({"inputs": raw["inputs"]})) == {"inputs"}


def test_probabilities_are_left_as_they_are():
    soft = torch.tensor([[0.25, 0.75]])
    images = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
    assert torch.equal(ImagePreprocessor()((images, soft))["data_samples"], soft)


def test_float_images_are_refused():
    with pytest.raises(DataError, match=r"inputs: .*uint8"):
        ImagePreprocessor(MEAN, STD)({"inputs": torch.rand(2, 3, 5, 7)})


def test_bad_constants():
    for mean, std in (((123.7, 116.3, 103.5), STD), (MEAN, (0.2, 0.0, 0.2)), (MEAN, (0.5,))):
        config = {"type": "ImagePreprocessor", "mean": mean, "std": std}
        with pytest.raises(ConfigError, match=r"model\.data_preprocessor"):
            build(MODELS, config, "model.data_preprocessor")
