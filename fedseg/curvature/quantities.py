"""What is measured of a model: a function per quantity.

They are of the mean loss L_D over data D and its Hessian H; docs/flatness.md defines them, and
:mod:`fedseg.runs.curvature_files` says what each gives.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from rich.progress import Progress

from fedseg.core.seeds import generator_for
from fedseg.curvature import spectrum
from fedseg.curvature.clients import train_models
from fedseg.curvature.features import feature_norms
from fedseg.curvature.products import Products
from fedseg.curvature.run_data import TRAIN, RunData, Selection
from fedseg.curvature.sharpness import asam_sharpness, sam_sharpness
from fedseg.curvature.surface import LossSurface, Point, Samples
from fedseg.errors import ConfigError
from fedseg.local_losses.fedalign import hessian_differences

EXACT_DIAGONAL = 2000  # parameters up to which a diagonal is computed by unit vectors
SPECTRUM = 50  # eigenvalues
DENSITY_PROBES = 10

Values = dict[str, Any]


@dataclass
class Subject:
    """A model and the data that it is measured on.

    Attributes:
        run: the network and all data.
        checkpoint: the file that has the model.
        point: the global model, or the average.
        selection: D.
        folder: of the results, where there is room for large intermediate ones.
        bars: show how far it is.
    """

    run: RunData
    checkpoint: Path
    point: Point
    selection: Selection
    folder: Path
    bars: Progress

    @cached_property
    def samples(self) -> Samples:
        """D, as the global model is evaluated on it."""
        return self.run.global_samples(self.selection)

    @property
    def surface(self) -> LossSurface:
        """The loss over D around the model."""
        statistics = self.run.global_statistics(self.selection.domain)
        return LossSurface(self.run.flat, self.samples, self.point, statistics)

    def client_surface(self, client: str) -> LossSurface:
        """The loss over a client's training images around the model."""
        samples = self.run.global_samples(self._of_client(client))
        return LossSurface(self.run.flat, samples, self.point)

    def trained_surface(self, model: Point) -> LossSurface:
        """The loss over a client's training images around the model that the client has trained."""
        samples = self.run.samples(self._of_client(model.name))
        return LossSurface(self.run.flat, samples, model)

    def _of_client(self, client: str) -> Selection:
        """The client's training images, which running statistics normalize: in small batches."""
        return self.run.in_small_batches(replace(self.selection, domain=TRAIN, client=client))

    def train(self, clients: list[str] | None = None) -> list[Point]:
        """The models that clients train from the global one; None: the participants'."""
        return train_models(self.run, self.checkpoint, clients)

    def generator(self, name: str, *counters: int) -> np.random.Generator:
        """Random numbers of a quantity, always the same."""
        return generator_for(self.run.seed, f"curvature {name}", *counters)

    @contextmanager
    def products(self, surface: LossSurface, total: int | None = None) -> Iterator[Products]:
        """Products, counted on a bar; ``total`` of them if that is known before."""
        bar = self.bars.add_task("products", total=total)
        yield Products(surface, lambda: self.bars.advance(bar))
        self.bars.remove_task(bar)

    def largest(
        self, surface: LossSurface, k: int, tolerance: float
    ) -> tuple[spectrum.Spectrum, int]:
        """The k largest eigenvalues of a Hessian, and the number of products."""
        with self.products(surface) as products:
            eigenvalues = spectrum.largest(products, k, self.generator("top"), tolerance)
            return eigenvalues, products.count

    def lambda_max(self, surface: LossSurface, tolerance: float) -> float:
        """The largest eigenvalue of a Hessian."""
        eigenvalues, _ = self.largest(surface, 1, tolerance)
        return float(eigenvalues.values[0])


# ---------------------------------------------------------------- of the model on D


def loss(subject: Subject) -> Values:
    """Measure L, the metrics, and the norms of the gradient and of the parameters."""
    gradient, value = subject.surface.gradient()
    return {
        "loss": value,
        "metrics": subject.surface.metrics(),
        "gradient_norm": float(gradient.norm()),
        "norm_w": float(subject.point.w.norm()),
    }


def top(subject: Subject, top: int, tolerance: float) -> Values:
    """Measure the largest eigenvalues, and lambda_1 / lambda_5 (ECCV 2022, table 1)."""
    eigenvalues, count = subject.largest(subject.surface, top, tolerance)
    values = eigenvalues.values
    return {
        "lambda_max": values[0],
        "eigenvalues": values,
        "lambda_max_over_lambda5": values[0] / values[4] if top >= 5 and values[4] else None,
        "residuals": eigenvalues.residuals,
        "products": count,
    }


def fifty_largest(subject: Subject, tolerance: float) -> Values:
    """Measure the 50 largest eigenvalues, or all but one of a small network."""
    return top(subject, min(SPECTRUM, subject.run.flat.num_parameters - 1), tolerance)


def trace(subject: Subject, probes: int) -> Values:
    """Estimate H_T of FedAlign (table 1), and the Frobenius norm."""
    budget = probes // 3 * 3
    with subject.products(subject.surface, budget) as products:
        estimates = spectrum.trace_and_norm(products, budget, subject.generator("trace"))
    values = {name: asdict(estimate) for name, estimate in estimates.items()}
    return {**values, "products": budget}


def density(subject: Subject, steps: int) -> Values:
    """Estimate the distribution of all eigenvalues."""
    total = DENSITY_PROBES * steps
    with subject.products(subject.surface, total) as products:
        generator = subject.generator("density")
        estimate = spectrum.density(products, steps, DENSITY_PROBES, generator)
    return {
        "nodes": estimate.nodes,
        "weights": estimate.weights,
        "moments": {"1": asdict(estimate.moment(1)), "2": asdict(estimate.moment(2))},
    }


def sharpness(subject: Subject, rho: float, asam_rho: float, eta: float, ascent: int) -> Values:
    """Measure SAM's and ASAM's sharpness."""
    return {
        "sam": sam_sharpness(subject.surface, rho, ascent),
        "asam": asam_sharpness(subject.surface, asam_rho, eta, ascent),
    }


# ---------------------------------------------------------------- of the model on clients' data


def clients(subject: Subject, clients: int | None, tolerance: float) -> Values:
    """Measure lambda_1 on the data of each client (ECCV 2022's bars)."""
    largest = {}
    for client in _track(subject, clients):
        largest[client] = subject.lambda_max(subject.client_surface(client), tolerance)
    quartiles = np.quantile(list(largest.values()), [0, 0.25, 0.5, 0.75, 1])
    return {"lambda_max": largest, "quartiles": quartiles}


def fedalign(subject: Subject, clients: int | None, probes: int) -> Values:
    """Estimate H_N and H_D from the diagonals of the clients' Hessians (FedAlign, section 3.3)."""
    names = subject.run.first_clients(clients)
    n = subject.run.flat.num_parameters
    if len(names) < 2:
        raise ConfigError("fedalign: compares clients, and there is only one")
    exact = n <= EXACT_DIAGONAL
    groups = 1 if exact else min(9, max(3, probes // 10))
    per_group = n if exact else probes // groups
    dtype = np.float64 if exact else np.float32
    with TemporaryFile(dir=subject.folder) as file:  # on disk: there may be many clients
        diagonals = np.memmap(file, dtype, "w+", shape=(len(names), groups, n))
        for number, client in enumerate(_track(subject, clients)):
            with subject.products(subject.client_surface(client), groups * per_group) as products:
                for group in range(groups):
                    rng = None if exact else subject.generator("diagonal", number, group)
                    diagonals[number, group] = spectrum.diagonal(products, per_group, rng)
        differences = hessian_differences(diagonals)
    norm = spectrum.Estimate(differences.norm, differences.norm_error)
    cosine = spectrum.Estimate(differences.cosine, differences.cosine_error)
    return {
        "hessian_norm_diff": asdict(norm),
        "hessian_direction_cos": asdict(cosine),
        "products": groups * per_group,
    }


def features(subject: Subject, clients: int | None) -> Values:
    """Measure the norms of the activations before the last layer, and of its outputs."""
    by_class = feature_norms(subject.surface)
    of_features: defaultdict[str, dict[int, float]] = defaultdict(dict)
    of_outputs: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for client in _track(subject, clients):
        norms = feature_norms(subject.client_surface(client))
        of_features[client] = norms.features
        of_outputs[client] = norms.outputs
    return {
        "norm_by_class": by_class.features,
        "of_clients": of_features,
        "output_norm_by_class": by_class.outputs,
        "outputs_of_clients": of_outputs,
    }


# ---------------------------------------------------------------- of the models that clients train


def participants(subject: Subject, tolerance: float) -> Values:
    """Measure lambda_1 of the next participants' models, on their own data and on D.

    FedGloSS, table 1.
    """
    if subject.selection.client is not None:
        raise ConfigError("--client: participants are measured on all data, too: leave it out")
    run = subject.run
    everything = run.samples(subject.selection)
    local, everywhere = {}, {}
    for model in _track_models(subject, subject.train()):
        local[model.name] = subject.lambda_max(subject.trained_surface(model), tolerance)
        surface = LossSurface(run.flat, everything, model)
        everywhere[model.name] = subject.lambda_max(surface, tolerance)
    return {"lambda_max_local": local, "lambda_max_global": everywhere}


def updated(subject: Subject, clients: int | None, tolerance: float) -> Values:
    """Measure lambda_1 of the model that each client trains, on its own data."""
    models = subject.train(subject.run.first_clients(clients))
    largest = {}
    for model in _track_models(subject, models):
        largest[model.name] = subject.lambda_max(subject.trained_surface(model), tolerance)
    return {"lambda_max": largest}


def _track(subject: Subject, count: int | None) -> Iterator[str]:
    """The first clients, counted on a bar."""
    yield from subject.bars.track(subject.run.first_clients(count), description="clients")


def _track_models(subject: Subject, models: list[Point]) -> Iterator[Point]:
    yield from subject.bars.track(models, description="trained models")


@dataclass(frozen=True)
class Quantity:
    """A quantity of the command.

    Attributes:
        measure: the function that measures it.
        options: the arguments that it takes besides the subject.
    """

    measure: Callable[..., Values]
    options: tuple[str, ...] = ()


QUANTITIES = {
    "loss": Quantity(loss),
    "top": Quantity(top, ("top", "tolerance")),
    "spectrum": Quantity(fifty_largest, ("tolerance",)),
    "trace": Quantity(trace, ("probes",)),
    "density": Quantity(density, ("steps",)),
    "sharpness": Quantity(sharpness, ("rho", "asam_rho", "eta", "ascent")),
    "clients": Quantity(clients, ("clients", "tolerance")),
    "fedalign": Quantity(fedalign, ("clients", "probes")),
    "participants": Quantity(participants, ("tolerance",)),
    "updated": Quantity(updated, ("clients", "tolerance")),
    "features": Quantity(features, ("clients",)),
}
