"""Products and what is estimated from them, against dense Hessians and closed forms."""

import numpy as np
import pytest
import torch
from torch import nn

from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, total_loss
from fedseg.curvature import spectrum
from fedseg.curvature.features import feature_norms
from fedseg.curvature.products import Products, expand
from fedseg.curvature.sharpness import asam_sharpness, sam_sharpness
from fedseg.curvature.surface import LossSurface, Part, Point, Samples
from fedseg.errors import TrainingError
from fedseg.models import Segmentor
from fedseg.models.classifier import Classifier
from fedseg.models.losses import CrossEntropy, OHEMCrossEntropy

PLAN = [[0, 3], [5, 1, 2], [4]]  # batches of different sizes


class Network(nn.Module):
    """Two outputs of different sizes, as with an auxiliary head."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1), norm
        self.main, self.auxiliary = nn.Conv2d(4, 3, 1), nn.Conv2d(4, 3, 2, stride=2)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        return [self.main(x), self.auxiliary(x)]


class Perceptron(Classifier):
    def __init__(self, width: int) -> None:
        super().__init__(4)
        self.hidden = nn.Linear(12, width)
        self.add_head(width)

    def features(self, inputs):
        return torch.tanh(self.hidden(inputs.flatten(1)))


def batches(model: nn.Module, seed: int = 0):
    """What the model is trained on: six images, labels with ignored pixels, in PLAN's batches."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.integers(0, 256, (6, 3, 4, 4), dtype=np.uint8))
    labels = torch.from_numpy(rng.integers(0, 3, (6, 4, 4)))
    labels[0, :2] = 255
    if isinstance(model, Classifier):
        images, labels = images[:, :, :2, :2].double() / 64, labels[:, 2, 2]
    return lambda plan: ((i, {"inputs": images[i], "data_samples": labels[i]}) for i in plan)


def surface(model: nn.Module, statistics: str = "running") -> LossSurface:
    torch.manual_seed(1)
    flat = FlatModel(model.double())
    for slot in flat.slots:
        slot.view(flat.w).copy_(torch.randn(slot.shape) * 0.5)
    for slot in flat.buffer_slots:  # statistics that are not those of a new layer
        slot.view(flat.buffers).copy_(torch.rand(slot.shape) + 0.5)
    data = Samples("six", [Part(PLAN[:2]), Part(PLAN[2:])], batches(model))
    point = Point("random", flat.w.clone(), flat.buffers.clone())
    return LossSurface(flat, data, point, statistics)


def dense(of: LossSurface) -> np.ndarray:
    """The Hessian by a plain loop: a mean over labeled pixels, or over images."""
    model, pixels = of.flat.model, isinstance(getattr(of.flat.model, "criterion", 0), CrossEntropy)
    parameters = [dict(model.named_parameters())[slot.name] for slot in of.flat.slots]
    total, weights = 0, 0
    with of.evaluating():
        for _, batch in of.data.load(PLAN):
            weight = len(batch["data_samples"])
            if pixels:
                weight = int((batch["data_samples"] != 255).sum())
            prepared = model.data_preprocessor(batch)
            total = total + weight * total_loss(forward(model, prepared, "loss"))
            weights += weight
        gradient = torch.autograd.grad(total / weights, parameters, create_graph=True)
        gradient = torch.cat([g.reshape(-1) for g in gradient])
        units = torch.eye(len(gradient)).double()
        rows = [torch.autograd.grad(gradient, parameters, u, retain_graph=True) for u in units]
    return torch.stack([torch.cat([r.reshape(-1) for r in row]) for row in rows]).numpy()


def test_a_first_pass_sees_each_clients_own_statistics():
    """Pixels are counted in a pass of their own, which must not leave another client's there."""
    of = surface(Segmentor(Network(nn.BatchNorm2d(4)), CrossEntropy()))
    twice = Part([[0, 3], [5]]), Part([[1], [2, 4]], lambda w, buffers: (w, 2 * buffers))
    total, gradient, pixels = 0.0, 0, 0
    for part in twice:
        for plan in part.plan:  # one batch and one client at a time
            alone = Samples("one", [Part([plan], part.personal)], of.data.load)
            one = LossSurface(of.flat, alone, Point("", of.w, of.buffers))
            mine, (slope, again) = one.loss(), one.gradient()
            assert mine == pytest.approx(again)
            total, gradient = total + one.total * mine, gradient + one.total * slope
            pixels += one.total
    point = Point("", of.w, of.buffers)
    both = LossSurface(of.flat, Samples("both", list(twice), of.data.load), point)
    assert both.loss() == pytest.approx(total / pixels)
    both = LossSurface(of.flat, Samples("both", list(twice), of.data.load), point)
    slope, loss = both.gradient()
    assert loss == pytest.approx(total / pixels)
    torch.testing.assert_close(slope, gradient / pixels)


@pytest.mark.parametrize("loss", [CrossEntropy(), OHEMCrossEntropy(0.25)], ids=["ce", "ohem"])
@pytest.mark.parametrize(
    ("norm", "statistics"),
    [(nn.BatchNorm2d(4), "running"), (nn.BatchNorm2d(4), "batch"), (nn.GroupNorm(2, 4), "running")],
    ids=["bn running", "bn batch", "gn"],
)
def test_hessian_is_the_dense_one(loss, norm, statistics):
    of = surface(Segmentor(Network(norm), loss), statistics)
    products, hessian = Products(of), dense(of)
    buffers = of.flat.buffers.clone()
    vectors = np.random.default_rng(0).standard_normal((3, products.n))
    for v in vectors:
        np.testing.assert_allclose(products(v), hessian @ v, atol=1e-12)
    assert products.count == 3
    found = spectrum.largest(products, 4, np.random.default_rng(0), 1e-10)
    values, axes = np.linalg.eigh(hessian)
    np.testing.assert_allclose(found.values, values[::-1][:4], atol=1e-8)
    for v, expected in zip(found.vectors.T, axes.T[::-1], strict=False):
        assert abs(v @ expected) == pytest.approx(1, abs=1e-8)
    assert found.residuals.max() < 1e-8
    if statistics == "running" and not isinstance(loss, OHEMCrossEntropy):
        whole = Samples("six", [Part([[*range(6)]])], of.data.load)  # batches do not matter
        one = LossSurface(of.flat, whole, Point("the same", of.w, of.buffers))
        np.testing.assert_allclose(Products(one)(vectors[0]), products(vectors[0]), atol=1e-12)
        assert one.loss() == pytest.approx(of.loss())
    assert torch.equal(of.flat.buffers, buffers)  # statistics are read, not updated


@pytest.mark.parametrize("tolerance", [0.01, 1e-10])
@pytest.mark.parametrize("k", [1, 5, 10])
def test_repeated_eigenvalues_are_all_found(k, tolerance):
    """Softmax regression on ten classes at zero weights has each of its eigenvalues nine times."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((50, 20))
    matrix = np.kron(np.eye(10) / 10 - 0.01, images.T @ images / 50)
    products = lambda v: matrix @ v  # noqa: E731
    products.n = len(matrix)
    found = spectrum.largest(products, k, rng, tolerance)
    expected = np.linalg.eigvalsh(matrix)[::-1][:k]
    np.testing.assert_allclose(found.values, expected, rtol=max(tolerance, 1e-8))
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-2)
    assert (found.residuals <= 1.01 * tolerance * found.values + 1e-9).all()


def test_hessian_is_that_of_curvlinops():
    """Another implementation (Dangel et al.) multiplies the same."""
    curvlinops = pytest.importorskip("curvlinops")
    of = surface(Perceptron(5))
    (batch,) = (batch for _, batch in of.data.load([[*range(6)]]))
    parameters = [dict(of.flat.model.named_parameters())[slot.name] for slot in of.flat.slots]
    data = [(batch["inputs"], batch["data_samples"])]
    loss = nn.CrossEntropyLoss()
    operator = curvlinops.HessianLinearOperator(of.flat.model, loss, parameters, data)
    products = Products(of)
    for v in np.random.default_rng(0).standard_normal((3, products.n)):
        np.testing.assert_allclose(products(v), operator @ torch.from_numpy(v), atol=1e-12)


def test_a_layer_that_nothing_uses_has_no_curvature():
    torch.manual_seed(1)
    with_spare = Perceptron(2)
    with_spare.spare = nn.Linear(2, 1)
    of, alone = surface(with_spare), surface(Perceptron(2))
    alone.w.copy_(of.w[: len(alone.w)])
    v = np.random.default_rng(0).standard_normal(of.flat.num_parameters)
    expected = Products(alone)(v[:-3])
    np.testing.assert_allclose(Products(of)(v), np.append(expected, np.zeros(3)), atol=1e-14)


def test_class_weights_of_a_pytorch_loss():
    """They are called weight, as is a pixel loss's way to weigh a batch."""
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    loss = nn.CrossEntropyLoss(weights, ignore_index=255)
    of = surface(Segmentor(Network(nn.GroupNorm(2, 4)), loss))
    model, expected = of.flat.model, 0.0
    for plan, batch in of.data.load(PLAN):
        value = total_loss(forward(model, model.data_preprocessor(batch), "loss"))
        expected += len(plan) / 6 * value.item()
    assert of.loss() == pytest.approx(expected, rel=1e-12)


def test_logistic_regression_has_its_closed_form():
    class Logistic(Classifier):
        def __init__(self):
            super().__init__(3)
            self.add_head(12)

        def features(self, inputs):
            return inputs.flatten(1)

    of = surface(Logistic())
    (batch,) = (b for _, b in of.data.load([[*range(6)]]))
    x = np.c_[batch["inputs"].flatten(1).numpy(), np.ones(6)]
    weight, bias = (slot.view(of.w).numpy() for slot in of.flat.slots)
    logits = x @ np.c_[weight, bias].T
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    blocks = np.einsum("ni,ij->nij", p, np.eye(3)) - p[:, :, None] * p[:, None]
    expected = np.einsum("nij,na,nb->iajb", blocks, x, x) / 6
    v = np.random.default_rng(0).standard_normal((3, 13))
    product = np.einsum("iajb,jb->ia", expected, v)
    flat = np.r_[v[:, :12].ravel(), v[:, 12]]
    expected = np.r_[product[:, :12].ravel(), product[:, 12]]
    np.testing.assert_allclose(Products(of)(flat), expected, atol=1e-12)


def test_vectors_of_products_leave_out_the_gaps():
    flat = surface(Segmentor(Network(nn.BatchNorm2d(4)), CrossEntropy())).flat
    assert flat.w.numel() > flat.num_parameters
    parameters = dict(flat.model.named_parameters())
    dense = torch.cat([parameters[slot.name].detach().flatten() for slot in flat.slots])
    assert torch.equal(expand(flat, dense.numpy()), flat.w)


def test_gradient_is_that_of_the_mean_loss():
    of = surface(Perceptron(5))
    gradient, loss = of.gradient()
    assert loss == pytest.approx(of.loss())
    step = 1e-6 * torch.randn_like(of.w)
    change = of.at(of.w + step).loss() - of.at(of.w - step).loss()
    assert change == pytest.approx(2 * float(gradient @ step), rel=1e-4)


def test_feature_norms_are_means_by_class():
    of = surface(Perceptron(5))
    norms = feature_norms(of)
    model = of.flat.model
    cases = ((norms.features, model.features), (norms.outputs, model))
    for by_class, function in cases:
        sums: dict[int, list[float]] = {}
        for _, batch in of.data.load([[n] for n in range(6)]):
            norm = float(function(batch["inputs"]).detach().norm())
            sums.setdefault(int(batch["data_samples"]), []).append(norm)
        assert by_class == pytest.approx({c: np.mean(norms) for c, norms in sums.items()})


class Matrix:
    """Products with a matrix that is known."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix, self.n = matrix, len(matrix)

    def __call__(self, v: np.ndarray) -> np.ndarray:
        return self.matrix @ v


def with_eigenvalues(values: np.ndarray) -> Matrix:
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((len(values),) * 2))[0]
    return Matrix(q @ np.diag(values) @ q.T)


def assert_moments(density: spectrum.Density, eigenvalues: np.ndarray) -> None:
    np.testing.assert_allclose(density.weights.sum(1), 1)
    for order in (1, 2, 3):
        moment = density.moment(order)
        assert abs(moment.value - (eigenvalues**order).mean()) < 3 * moment.standard_error


SPIKED = with_eigenvalues(np.r_[50.0, 20, 10, -5, np.random.default_rng(1).normal(0, 0.3, 296)])


def test_trace_and_norm_are_within_three_standard_errors():
    exact = {"trace": np.trace(SPIKED.matrix), "frobenius_norm": np.linalg.norm(SPIKED.matrix)}
    for seed in range(20):
        found = spectrum.trace_and_norm(SPIKED, 90, np.random.default_rng(seed))
        for (name, estimate), most in zip(found.items(), (3, 4), strict=True):
            assert abs(estimate.value - exact[name]) < most * estimate.standard_error, (seed, name)


def test_standard_error_is_the_deviation_over_seeds():
    found = [
        spectrum.trace_and_norm(SPIKED, 60, np.random.default_rng(seed))["trace"]
        for seed in range(200)
    ]
    deviation = np.std([one.value for one in found], ddof=1)
    assert np.mean([one.standard_error for one in found]) == pytest.approx(deviation, rel=0.15)


def test_density_has_the_moments_of_the_matrix():
    found = spectrum.density(SPIKED, 40, 30, np.random.default_rng(0))
    assert_moments(found, np.linalg.eigvalsh(SPIKED.matrix))
    assert found.nodes.max() == pytest.approx(50, abs=1e-6)


def test_density_of_few_different_eigenvalues_is_theirs():
    found = spectrum.density(
        with_eigenvalues(np.repeat([2.0, 7.0], 10)), 15, 4, np.random.default_rng(0)
    )
    heavy = found.nodes[found.weights > 1e-8]
    np.testing.assert_allclose(np.sort(np.unique(heavy.round(6))), [2, 7])


def test_diagonals():
    exact = np.diag(SPIKED.matrix)
    np.testing.assert_allclose(spectrum.diagonal(SPIKED, 0, None), exact, atol=1e-12)
    found = spectrum.diagonal(SPIKED, 2000, np.random.default_rng(0))
    error = np.sqrt((np.square(SPIKED.matrix).sum(1) - exact**2) / 2000)  # of Rademacher vectors
    assert (np.abs(found - exact) / error).max() < 5


def test_rise_on_a_quadratic_is_the_closed_form():
    class Quadratic(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor([3.0, 0.5]))

        def forward(self, inputs, data_samples=None, mode="loss"):
            return {"loss": (inputs * self.w**2).sum(1).mean() / 2}

    curvature = np.array([1.0, 4.0])
    flat = FlatModel(Quadratic().double())
    data = torch.from_numpy(np.stack([curvature - 0.5, curvature + 0.5]))
    load = lambda plan: ((i, {"inputs": data[i]}) for i in plan)  # noqa: E731
    point = Point("start", flat.w.clone(), flat.buffers)
    of = LossSurface(flat, Samples("two", [Part([[0], [1]])], load), point)
    w, rho = np.array([3.0, 0.5]), 0.1
    gradient = curvature * w
    eps = rho * gradient / np.linalg.norm(gradient)
    loss = lambda w: (curvature * w**2).sum() / 2  # noqa: E731
    sam = sam_sharpness(of, rho)
    assert sam == pytest.approx(loss(w + eps) - loss(w))
    angles = np.linspace(0, 2 * np.pi, 20001)
    circle = rho * np.c_[np.cos(angles), np.sin(angles)]
    best = max(loss(w + e) for e in circle) - loss(w)
    assert sam_sharpness(of, rho, 30) == pytest.approx(best, rel=1e-6)
    # ASAM: a parameter vector is a bias, so that T = 1
    assert asam_sharpness(of, rho, eta=0.1) == pytest.approx(sam)


class Chain(Classifier):
    """Two linear layers without biases: one may be multiplied and the other divided."""

    def __init__(self):
        super().__init__(3)
        self.first, self.classifier = nn.Linear(12, 4, bias=False), nn.Linear(4, 3, bias=False)

    def features(self, inputs):
        return self.first(inputs.flatten(1))


def test_only_the_adaptive_rise_is_the_same_for_the_same_function():
    of = surface(Chain())
    w = of.w.clone()
    for slot, factor in zip(of.flat.slots, (5, 1 / 5), strict=True):
        slot.view(w).mul_(factor)
    other = of.at(w)
    assert other.loss() == pytest.approx(of.loss())
    assert asam_sharpness(other, 0.1, 0, 3) == pytest.approx(asam_sharpness(of, 0.1, 0, 3))
    assert sam_sharpness(other, 0.1, 3) > 1.5 * sam_sharpness(of, 0.1, 3)


@pytest.mark.parametrize("loss", [CrossEntropy(), OHEMCrossEntropy(0.25)], ids=["ce", "ohem"])
def test_images_without_a_label_have_no_loss_and_no_curvature(loss):
    of = surface(Segmentor(Network(nn.GroupNorm(2, 4)), loss, 3))
    images = torch.zeros(6, 3, 4, 4, dtype=torch.uint8)
    none = torch.full((6, 4, 4), 255)
    load = lambda plan: ((i, {"inputs": images[i], "data_samples": none[i]}) for i in plan)  # noqa: E731
    of = LossSurface(of.flat, Samples("none", [Part(PLAN)], load), Point("", of.w, of.buffers))
    assert of.loss() == 0 and not of.gradient()[0].any()
    found = spectrum.largest(Products(of), 3, np.random.default_rng(0))
    assert not found.values.any() and not found.residuals.any()


def test_products_that_are_not_finite_are_refused():
    of = surface(Perceptron(3))
    with pytest.raises(TrainingError, match="is the model's loss finite"):
        Products(of.at(of.w * float("nan")))(np.ones(of.flat.num_parameters))


def test_a_rise_to_what_is_no_number_is_none():
    class Overflows(LossSurface):
        def loss(self):
            return float("nan")

    of = surface(Perceptron(3))
    overflows = Overflows(of.flat, of.data, Point("", of.w, of.buffers))
    assert np.isnan(sam_sharpness(overflows, 0.05))
