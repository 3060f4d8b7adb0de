"""Exported models give the class maps of ``fedseg predict``, but for ties."""

import json
import runpy

import cv2
import numpy as np
import pytest
import torch
from mmseg.apis import inference_model, init_model
from PIL import Image
from untrained import write_run

import fedseg
import fedseg.api
from fedseg.batchnorm import batchnorm_layers
from fedseg.core.flat import FlatModel
from fedseg.datasets.idda import IDDADataset
from fedseg.errors import ConfigError, DataError
from fedseg.inference.export import Deployed

INPUT, SIZE = (64, 64), (40, 50)
METHODS = {"bisenet": [], "deeplab": ["deeplabv3plus"], "segformer": ["segformer"]}
WINDOWS = (
    "model = dict(network=dict(test_cfg=dict(mode='slide', crop_size=(32, 48), stride=(16, 32))))"
)


@pytest.fixture(scope="module", params=[*METHODS, "cnn"])
def untrained(request, photograph, tmp_path_factory):
    """A run at rest whose model never trained; its data are not there."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "cnn":
        write_run(folder, "demo_shapes", classes=[f"shape {number}" for number in range(10)])
    else:
        resize = {"type": "ResizeInput", "size": INPUT, "antialias": request.param == "deeplab"}

        def see_images(flat: FlatModel) -> None:
            take_statistics(flat.model, photograph)

        methods = METHODS.get(request.param, ["deeplabv3plus", str(folder / "windows.py")])
        (folder / "windows.py").write_text(WINDOWS)
        write_run(folder, "idda_rainy", methods, resize, see_images, IDDADataset.classes)
    (expected,) = fedseg.api.Run(folder, None, ()).predict([photograph])
    return folder, expected


def take_statistics(model, photograph) -> None:
    """Give a random model statistics of images, or the signal would be lost on its way."""
    for layer in batchnorm_layers(model).values():
        layer.momentum = 1.0
    pixels = np.array(Image.open(photograph).resize(INPUT[::-1])).transpose(2, 0, 1)
    images = torch.tensor(pixels)[None] / 127.5 - 1
    model.train()(torch.cat([images, -images]), mode="tensor")
    conv = model.network.decode_head.conv_seg
    if conv.out_channels == 16:  # or one class would be everywhere
        logits = model.eval()(images, mode="tensor")
        conv.bias.data -= logits.mean((0, 2, 3)).detach()


@pytest.fixture(scope="module")
def photograph(tmp_path_factory):
    path = tmp_path_factory.mktemp("photo") / "street.png"
    image = np.random.default_rng(3).integers(0, 256, (*SIZE, 3), np.uint8)
    Image.fromarray(cv2.GaussianBlur(image, (9, 9), 4)).save(path)
    return path


def prepared(path, facts) -> torch.Tensor:
    """What the metadata say of an image, without the suite."""
    image = Image.open(path)
    size = facts["input_size"][::-1]
    if not facts["steps"] or facts["steps"][0]["antialias"]:
        pixels = np.array(image.resize(size, Image.Resampling.BILINEAR))
    else:
        pixels = cv2.resize(np.array(image), size, interpolation=cv2.INTER_LINEAR)
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None]


@pytest.mark.parametrize("kind", ["torchscript", "onnx", "torch", "mmseg"])
def test_class_maps_are_those_of_predict(untrained, photograph, kind, tmp_path):
    (run, expected), out = untrained, tmp_path / kind
    if kind == "mmseg" and expected.ndim == 0:
        with pytest.raises(ConfigError, match="EncoderDecoder"):
            fedseg.export(run, kind, out=out)
        return
    assert fedseg.export(run, kind, out=out, size=SIZE) == out
    if kind == "mmseg":
        model = init_model(str(out / "config.py"), str(out / "checkpoint.pth"), device="cpu")
        found = inference_model(model, str(photograph)).pred_sem_seg.data[0].numpy()
        again = inference_model(model, cv2.imread(str(photograph))).pred_sem_seg.data[0].numpy()
        assert model.dataset_meta["classes"][0] == "road" and (again == found).all()
    elif kind == "torchscript":
        extra = {"fedseg.json": ""}
        model = torch.jit.load(str(out), _extra_files=extra)
        with torch.jit.optimized_execution(False):
            found = model(prepared(photograph, json.loads(extra["fedseg.json"])))[0].numpy()
    elif kind == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(str(out))
        facts = json.loads(session.get_modelmeta().custom_metadata_map["fedseg.json"])
        images = prepared(photograph, facts).repeat(3, 1, 1, 1).numpy()
        found = session.run(None, {"images": images})[0][2]
        assert len(facts["classes"]) == (16 if expected.ndim else 10)
    else:
        snippet = runpy.run_path(str(out / "load.py"))
        found = snippet["predict"](prepared(photograph, snippet["facts"]))[0].numpy()
    assert found.shape == expected.shape and np.mean(found == expected) > 0.999
    assert expected.ndim == 0 or len(np.unique(expected)) > 1


@pytest.mark.parametrize("untrained", ["windows"], indirect=True)
def test_an_exported_model_slides_its_windows(untrained, photograph, tmp_path):
    test_class_maps_are_those_of_predict(untrained, photograph, "mmseg", tmp_path)


def test_statistics_of_clients_are_asked_for(small_run, tmp_path):
    options = {"trust": ["small_network"], "out": tmp_path / "model.pt"}
    with pytest.raises(ConfigError, match=r"domain: .*T01_CN_A"):
        fedseg.export(small_run, "torchscript", **options)
    model = torch.jit.load(fedseg.export(small_run, "torchscript", domain="T01_CN_A", **options))
    image = np.random.default_rng(1).integers(0, 255, (36, 64, 3), np.uint8)
    run = fedseg.read_run(small_run)
    (expected,) = run.predict([image], domain="T01_CN_A", trust=["small_network"])
    assert (
        model(torch.from_numpy(image.transpose(2, 0, 1).copy())[None])[0].numpy() == expected
    ).all()
    with pytest.raises(ConfigError, match="format"):
        fedseg.export(small_run, "onxx", domain="T01_CN_A", **options)
    with pytest.raises(ConfigError, match=r"torch cannot export .* module small_network: use"):
        fedseg.export(small_run, "torch", domain="T01_CN_A", **options)


@pytest.mark.parametrize("untrained", ["cnn"], indirect=True)
@pytest.mark.parametrize("kind", ["torchscript", "onnx"])
def test_a_file_stays_where_the_new_one_would_predict_other_classes(
    untrained, kind, tmp_path, monkeypatch
):
    (run, _), out = untrained, tmp_path / "model"
    out.write_bytes(b"a good file")

    def other_classes(self: Deployed, images: torch.Tensor) -> torch.Tensor:
        return self.logits(images).argmin(1)

    monkeypatch.setattr(Deployed, "forward", other_classes)
    with pytest.raises(DataError, match="is not written: it would predict other classes"):
        fedseg.export(run, kind, out=out, size=SIZE)
    assert out.read_bytes() == b"a good file" and list(tmp_path.iterdir()) == [out]
