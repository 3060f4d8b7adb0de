"""Quantities of a checkpoint, each written to ``curvature.json`` as soon as it is done.

Definitions, for the mean loss L_D over data D and its Hessian H:

- ``loss``: L_D, the metrics on D, and the norm of the gradient.
- ``top``: the largest eigenvalues; lambda_max is the first, lambda_max_over_lambda5 its ratio to
  the fifth (Caldarola et al., ECCV 2022, table 1; they ran at most 20 power iterations).
- ``spectrum``: the same for the 50 largest.
- ``trace``: H_T of FedAlign (table 1), and the Frobenius norm.
- ``density``: the spectral density as point masses.
- ``sharpness``: how far the loss rises within SAM's and ASAM's radius.
- ``clients``: lambda_max on each client's own data, at the global model (ECCV 2022's bars).
- ``fedalign``: H_N and H_D from the diagonals of the clients' Hessians at the global model.
- ``participants``: lambda_{1,l} and lambda_{1,g} of FedGloSS (table 1): lambda_max of each
  participant's trained model on its own data and on D.
- ``features``: the mean norm of the last features by class, on D and on each client's data.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from fedseg.checks import check_float, check_int
from fedseg.core.seeds import generator_for
from fedseg.curvature import spectrum
from fedseg.curvature.checkpoint import TRAIN, Opened, Point, identity, run_folder
from fedseg.curvature.clients import gram_matrix, hessian_differences, participants_models
from fedseg.curvature.sharpness import rise
from fedseg.curvature.surface import STATISTICS, LossSurface
from fedseg.errors import ConfigError
from fedseg.files import atomic_writer, write_text
from fedseg.runs.curvature_files import FILE_NAME

SCHEMA_VERSION = 1
VECTORS = "eigenvectors.npy"  # float32 [2, n], as fedseg.curvature.surface.compact lays them out
DEFAULT = ("loss", "top", "trace", "sharpness")
EXACT_DIAGONAL = 2000  # parameters up to which a diagonal is computed by unit vectors
SPECTRUM = 50


@dataclass(frozen=True)
class Settings:
    """What is measured, and how well.

    Attributes:
        data: ``train`` or a test domain. samples: of D at most, as of each client; None: all.
        augment: take the training images in their augmentation, drawn once.
        statistics: BatchNorm's; see :class:`fedseg.curvature.surface.LossSurface`.
        matrix: ``"hessian"`` or ``"ggn"``. averaged: the averaged model, if there is one.
        batch_size: None: the evaluation's. top: number of eigenvalues. tolerance: of residuals.
        probes: random vectors of a trace or diagonal. steps: of a density's Lanczos process.
        clients: the first to take part, so many; None: all.
        rho, asam_rho, eta, ascent: radii of SAM and ASAM, ASAM's eta, steps of ascent.
    """

    data: str = TRAIN
    samples: int | None = None
    augment: bool = False
    statistics: str = "running"
    matrix: str = "hessian"
    averaged: bool = True
    batch_size: int | None = None
    top: int = 5
    tolerance: float = 1e-3
    probes: int = 90
    steps: int = 80
    clients: int | None = 10
    rho: float = 0.05
    asam_rho: float = 0.5
    eta: float = 0.2
    ascent: int = 5

    def __post_init__(self) -> None:
        for name in ("top", "steps", "ascent", "samples", "batch_size", "clients"):
            if getattr(self, name) is not None:
                check_int(f"--{name.replace('_', '-')}", getattr(self, name))
        check_int("--probes", self.probes, least=6)
        for name in ("tolerance", "rho", "asam_rho"):
            check_float(f"--{name.replace('_', '-')}", getattr(self, name), above=0)
        check_float("--eta", self.eta, least=0)
        if self.statistics not in STATISTICS:
            raise ConfigError(f"--statistics: must be one of {', '.join(STATISTICS)}")


USED = {  # the settings that a quantity depends on, besides those of the data
    "loss": (),
    "top": ("top", "tolerance"),
    "spectrum": ("tolerance",),
    "trace": ("probes",),
    "density": ("steps",),
    "sharpness": ("rho", "asam_rho", "eta", "ascent"),
    "clients": ("tolerance", "clients"),
    "fedalign": ("probes", "clients"),
    "participants": ("tolerance",),
    "features": ("clients",),
}
QUANTITIES = tuple(USED)
SHARED = ("samples", "augment", "statistics", "matrix", "averaged", "batch_size")


class Measurement:
    """The quantities of one checkpoint.

    Args:
        opened: its run. checkpoint: its file. settings: see :class:`Settings`.
        folder: where ``curvature.json`` goes; None: ``curvature/<checkpoint's name>`` of the run.
        console: for progress.
    """

    def __init__(
        self,
        opened: Opened,
        checkpoint: Path,
        settings: Settings,
        folder: Path | None = None,
        console: Console | None = None,
    ) -> None:
        self.opened, self.checkpoint, self.settings = opened, checkpoint, settings
        self.point = opened.load(checkpoint, settings.averaged)
        if opened.policy is not None and settings.data != TRAIN:  # no client has statistics for it
            self.settings = settings = replace(settings, statistics="batch")
        self.folder = folder or default_folder(checkpoint, settings)
        self.console = console or Console(stderr=True)
        self.data = self._samples()
        self.result = {
            "schema_version": SCHEMA_VERSION,
            **identity(opened, checkpoint),
            "data": settings.data,
            "data_sha256": opened.checksum(settings.data),
            "num_samples": len(self.data),
            "settings": {name: getattr(settings, name) for name in SHARED},
        }
        self.result["quantities"] = self._earlier()

    def _samples(self, client: str | None = None, **options: Any) -> Any:
        s = self.settings
        name = TRAIN if client is not None else s.data
        return self.opened.samples(name, client, s.samples, s.batch_size, s.augment, **options)

    def _earlier(self) -> dict[str, Any]:
        """What an interrupted measurement of the same thing has finished."""
        try:
            found = json.loads((self.folder / FILE_NAME).read_text(encoding="utf-8"))
            quantities = found.pop("quantities")
        except (OSError, ValueError, KeyError, AttributeError):
            return {}
        return quantities if found == json.loads(json.dumps(self.result)) else {}

    def run(self, quantities: Sequence[str]) -> dict[str, Any]:
        """Measure what is not there yet; returns the content of ``curvature.json``."""
        for name in quantities:
            if name not in USED:
                raise ConfigError(f"--quantities: unknown {name!r}; known: {', '.join(QUANTITIES)}")
        for name in quantities:
            used = {key: getattr(self.settings, key) for key in USED[name]}
            if (self.result["quantities"].get(name) or {}).get("settings") == used:
                self.console.print(f"{name}: measured before", markup=False)
                continue
            begin = time.perf_counter()
            found = getattr(self, f"_{name}")()
            seconds = time.perf_counter() - begin
            self.result["quantities"][name] = {**found, "settings": used, "seconds": seconds}
            text = json.dumps(self.result, indent=2, default=_plain, allow_nan=False)
            write_text(self.folder / FILE_NAME, f"{text}\n")
            self.console.print(f"{name}: {seconds:.1f} s", markup=False)
        return self.result

    # ---------------------------------------------------------------- quantities

    def _surface(self, point: Point | None = None, data: Any = None) -> LossSurface:
        point, data = point or self.point, data or self.data
        return LossSurface(self.opened.flat, data, point.w, point.buffers, self.settings.statistics)

    def _rng(self, name: str, *counters: int) -> np.random.Generator:
        return generator_for(self.opened.seed, f"curvature {name}", *counters)

    @contextmanager
    def _progress(self, name: str, total: int | None) -> Iterator[Callable[[], None]]:
        """What counts a product; without a total nobody can tell the time left."""
        columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
        terminal = self.console.is_terminal
        with Progress(*columns, console=self.console, disable=not terminal) as bars:
            task = bars.add_task(f"{name}: products", total=total)
            yield lambda: bars.advance(task)

    @contextmanager
    def _products(self, name: str, total: int | None = None, **where: Any) -> Iterator[Any]:
        try:
            from fedseg.curvature.products import Products
        except ImportError as error:
            raise ConfigError(
                f"{error.name}: is not installed, which Hessian products need: install the extra "
                "'curvature'"
            ) from error
        with self._progress(name, total) as tick:
            yield Products(self._surface(**where), self.settings.matrix, tick)

    def _loss(self) -> dict[str, Any]:
        loss, metrics = self._surface().loss(metrics=True)
        gradient, _ = self._surface().gradient()
        norms = {"gradient_norm": float(gradient.norm()), "norm_w": float(self.point.w.norm())}
        return {"loss": loss, "metrics": metrics, **norms}

    def _largest(self, name: str, k: int, **where: Any) -> tuple[spectrum.Spectrum, int]:
        with self._products(name, **where) as products:
            found = spectrum.largest(products, k, self._rng("top"), self.settings.tolerance)
            return found, products.count

    def _top(self, name: str = "top", k: int | None = None) -> dict[str, Any]:
        found, count = self._largest(name, k or self.settings.top)
        with atomic_writer(self.folder / VECTORS, "wb") as file:
            np.save(file, found.vectors[:, :2].T.astype(np.float32))
        values = found.values.tolist()
        entry = {"lambda_max": values[0], "eigenvalues": values}
        entry |= {"residuals": found.residuals.tolist(), "products": count}
        if len(values) >= 5:
            entry["lambda_max_over_lambda5"] = values[0] / values[4]
        return entry

    def _spectrum(self) -> dict[str, Any]:
        return self._top("spectrum", min(SPECTRUM, self.opened.flat.num_parameters - 1))

    def _trace(self) -> dict[str, Any]:
        probes = self.settings.probes // 3 * 3
        with self._products("trace", probes) as products:
            found = spectrum.trace_and_norm(products, probes, self._rng("trace"))
        return {name: asdict(estimate) for name, estimate in found.items()} | {"products": probes}

    def _density(self) -> dict[str, Any]:
        probes = 10
        with self._products("density", probes * self.settings.steps) as products:
            found = spectrum.density(products, self.settings.steps, probes, self._rng("density"))
        moments = {str(order): asdict(found.moment(order)) for order in (1, 2)}
        nodes, weights = found.nodes.tolist(), found.weights.tolist()
        return {"nodes": nodes, "weights": weights, "moments": moments}

    def _sharpness(self) -> dict[str, Any]:
        s, surface = self.settings, self._surface()
        sam, norm = rise(surface, s.rho, s.ascent)
        asam, _ = rise(surface, s.asam_rho, s.ascent, s.eta)
        return {"sam": sam, "asam": asam, "gradient_norm": norm}

    def _clients(self) -> dict[str, Any]:
        values, residuals = {}, {}
        for client in self._first_clients():
            data = self._samples(client)
            found, _ = self._largest(f"clients: {client}", 1, data=data)
            values[client], residuals[client] = float(found.values[0]), float(found.residuals[0])
        quartiles = np.quantile(list(values.values()), [0, 0.25, 0.5, 0.75, 1]).tolist()
        return {"lambda_max": values, "residuals": residuals, "quartiles": quartiles}

    def _first_clients(self) -> list[str]:
        chosen = self.opened.first_clients(self.settings.clients)
        if self.opened.policy is not None:
            chosen = [client for client in chosen if client in self.opened.statistics]
        return chosen

    def _fedalign(self) -> dict[str, Any]:
        clients, n = self._first_clients(), self.opened.flat.num_parameters
        if len(clients) < 2:
            raise ConfigError("fedalign: compares clients, and there is only one")
        exact = n <= EXACT_DIAGONAL
        groups, each = (1, n) if exact else (3, max(1, self.settings.probes // 3))
        path = self.folder / "diagonals.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = np.float64 if exact else np.float32
        shape = (len(clients), groups, n)
        diagonals = np.lib.format.open_memmap(path, "w+", kind, shape)
        try:
            for number, client in enumerate(clients):
                where = {"data": self._samples(client)}
                with self._products(f"fedalign: {client}", groups * each, **where) as products:
                    for group in range(groups):
                        if exact:
                            diagonals[number, group] = spectrum.exact_diagonal(products)
                            continue
                        rng, mean = self._rng("diagonal", number, group), np.zeros(n)
                        for sample in spectrum.diagonal_samples(products, each, rng):
                            mean += sample / each
                        diagonals[number, group] = mean
            found = hessian_differences(gram_matrix(diagonals))
        finally:
            path.unlink(missing_ok=True)
        entry = {name: asdict(estimate) for name, estimate in found.items()}
        return {**entry, "clients": clients, "probes": None if exact else groups * each}

    def _participants(self) -> dict[str, Any]:
        local, everywhere = {}, {}
        everything = self._samples(personal=False)
        for client, point in participants_models(self.opened, self.checkpoint):
            own = {"point": point, "data": self._samples(client, personal=False)}
            found, _ = self._largest(f"participants: {client}, own data", 1, **own)
            local[client] = float(found.values[0])
            whole = {"point": point, "data": everything}
            found, _ = self._largest(f"participants: {client}, all data", 1, **whole)
            everywhere[client] = float(found.values[0])
        return {"lambda_max_local": local, "lambda_max_global": everywhere}

    def _features(self) -> dict[str, Any]:
        clients = {
            client: self._surface(data=self._samples(client)).feature_norms()
            for client in self._first_clients()
        }
        return {"norm_by_class": self._surface().feature_norms(), "of_clients": clients}


def default_folder(checkpoint: Path, settings: Settings) -> Path:
    """``curvature/<checkpoint's name>`` in its run, with what differs from the usual settings."""
    usual = Settings()
    words = [checkpoint.stem]
    for name in ("data", "matrix", "statistics"):
        if getattr(settings, name) != getattr(usual, name):
            words.append(getattr(settings, name))
    words += ["augmented"] * settings.augment + ["global"] * (not settings.averaged)
    return run_folder(checkpoint) / "curvature" / "-".join(words)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
