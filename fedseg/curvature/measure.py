"""Quantities of a checkpoint, each written to ``curvature.json`` as soon as it is done.

Definitions, for the mean loss L_D over data D and its Hessian H:

- ``loss``: L_D, the metrics on D, and the norm of the gradient.
- ``top``: the largest eigenvalues; lambda_max is the first, lambda_max_over_lambda5 its ratio to
  the fifth (Caldarola et al., ECCV 2022, table 1; they ran at most 20 power iterations).
- ``spectrum``: the same for the 50 largest.
- ``trace``: H_T of FedAlign (table 1), and the Frobenius norm.
- ``density``: the spectral density as point masses.
- ``sharpness``: the rise of the loss that SAM's and ASAM's ascent finds.
- ``clients``: lambda_max on each client's data, at the global model (ECCV 2022's bars).
- ``fedalign``: H_N and H_D from the diagonals of the clients' Hessians at the global model.
- ``participants``: lambda_{1,l} and lambda_{1,g} of FedGloSS (table 1): lambda_max of each
  participant's trained model on its own data and on D.
- ``features``: the mean norm of the last features by class, on D and on each client's data.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from fedseg.core.seeds import generator_for
from fedseg.curvature import spectrum
from fedseg.curvature.checkpoint import Point, RunData
from fedseg.curvature.clients import gram_matrix, hessian_differences, participants_models
from fedseg.curvature.settings import BATCH, TRAIN, Settings
from fedseg.curvature.sharpness import rise
from fedseg.curvature.surface import LossSurface
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer, read_json, write_text
from fedseg.runner.checkpoint import run_folder
from fedseg.runner.work_dir import hold
from fedseg.runs.curvature_files import CURVATURE, FILE_NAME
from fedseg.runs.from_json import own_path
from fedseg.runs.history import plain

SCHEMA_VERSION = 1
VECTORS = "eigenvectors.npy"  # float32 [2, n], as fedseg.curvature.surface.compact lays them out
DEFAULT = ("loss", "top", "trace", "sharpness")
EXACT_DIAGONAL = 2000  # parameters up to which a diagonal is computed by unit vectors
SPECTRUM, DENSITY_PROBES = 50, 10
SAME = ("checkpoint_sha256", "data", "data_sha256", "parameters", "dtype")
SHARED = ("samples", "augment", "statistics", "matrix", "averaged", "batch_size")
USED = {  # the settings that a quantity depends on, besides the shared ones
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


class Measurement:
    """The quantities of one checkpoint.

    Args:
        run: its run. checkpoint: its file. settings: see there.
        folder: where ``curvature.json`` goes; None: ``curvature/<checkpoint's name>`` of the run.
        console: for progress.
    """

    def __init__(
        self,
        run: RunData,
        checkpoint: Path,
        settings: Settings,
        folder: Path | None = None,
        console: Console | None = None,
    ) -> None:
        self.run_data, self.checkpoint = run, checkpoint
        self.point = run.load(checkpoint, settings.averaged)
        if run.policy is not None and settings.data != TRAIN:  # no client has statistics for it
            settings = replace(settings, statistics=BATCH)
        self.settings, self.folder = settings, folder or default_folder(checkpoint, settings)
        self.console = console or Console(stderr=True)
        columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(
            *columns, console=self.console, disable=not self.console.is_terminal, transient=True
        )
        self.data = self._samples()
        self.result: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            **run.identity(checkpoint),
            "data": settings.data,
            "data_sha256": run.checksum(settings.data),
            "quantities": {},
        }

    def _samples(self, client: str | None = None, **options: Any) -> Any:
        s = self.settings
        name = TRAIN if client is not None else s.data
        return self.run_data.samples(name, client, s.samples, s.batch_size, s.augment, **options)

    def measure(self, quantities: Sequence[str] = DEFAULT) -> dict[str, Any]:
        """Measure what is not there yet; returns the content of ``curvature.json``.

        Raises:
            ConfigError: a quantity is unknown or has no meaning here; another process measures.
        """
        for name in quantities:
            if name not in USED:
                raise ConfigError(f"--quantities: unknown {name!r}; known: {', '.join(USED)}")
        with hold(self.folder), self._bars:
            found = self.result["quantities"] = self._earlier()
            for name in quantities:
                used = {key: getattr(self.settings, key) for key in (*SHARED, *USED[name])}
                if (found.get(name) or {}).get("settings") == used:
                    self.console.print(f"{name}: measured before", markup=False)
                    continue
                begin = time.perf_counter()
                entry = getattr(self, f"_{name}")()
                seconds = time.perf_counter() - begin
                about = {"num_samples": len(self.data), "settings": used, "seconds": seconds}
                found[name] = plain({**entry, **about})
                text = json.dumps(self.result, indent=2, allow_nan=False)
                write_text(self.folder / FILE_NAME, f"{text}\n")
                self.console.print(f"{name}: {seconds:.1f} s", markup=False)
        return self.result

    def _earlier(self) -> dict[str, Any]:
        """What was measured of the same checkpoint and data before; a damaged file has nothing."""
        try:
            found = read_json(self.folder / FILE_NAME)
            same = all(found[name] == self.result[name] for name in SAME)
            return found["quantities"] if same and isinstance(found["quantities"], dict) else {}
        except (DataError, KeyError, TypeError):
            return {}

    # ---------------------------------------------------------------- quantities

    def _surface(self, point: Point | None = None, data: Any = None) -> LossSurface:
        point, data = point or self.point, data or self.data
        statistics = self.settings.statistics
        return LossSurface(self.run_data.flat, data, point.w, point.buffers, statistics)

    def _rng(self, name: str, *counters: int) -> np.random.Generator:
        return generator_for(self.run_data.seed, f"curvature {name}", *counters)

    @contextmanager
    def _bar(self, text: str, total: int, more: int = 0) -> Iterator[Callable[[], None]]:
        """What counts; with ``more``, what is certain is ``total``, and grows by so many."""
        at_least = ", at least" * bool(more)
        number = self._bars.add_task(escape(f"{text}{at_least}"), total=total)
        (bar,) = (task for task in self._bars.tasks if task.id == number)

        def advance() -> None:
            if bar.completed >= bar.total:
                self._bars.update(number, total=bar.total + more)
            self._bars.advance(number)

        yield advance
        self._bars.remove_task(number)

    def _each(self, text: str, items: Iterable[Any]) -> Iterator[Any]:
        """The items, with a bar of its own."""
        items = list(items)
        with self._bar(text, len(items)) as advance:
            for item in items:
                yield item
                advance()

    @contextmanager
    def _products(self, name: str, total: int, more: int = 0, **where: Any) -> Iterator[Any]:
        try:
            from fedseg.curvature.products import Products
        except ImportError as error:
            raise ConfigError(
                f"{error.name}: is not installed, which Hessian products need: install the extra "
                "'curvature'"
            ) from error
        with self._bar(f"{name}: products", total, more) as advance:
            yield Products(self._surface(**where), self.settings.matrix, advance)

    def _loss(self) -> dict[str, Any]:
        loss, metrics = self._surface().loss(metrics=True)
        gradient, _ = self._surface().gradient()
        norms = {"gradient_norm": float(gradient.norm()), "norm_w": float(self.point.w.norm())}
        return {"loss": loss, "metrics": metrics, **norms}

    def _largest(self, name: str, k: int = 1, **where: Any) -> tuple[spectrum.Spectrum, int]:
        basis = spectrum.basis_size(self.run_data.flat.num_parameters, k)
        with self._products(name, basis + k, max(1, basis - k), **where) as products:
            found = spectrum.largest(products, k, self._rng("top"), self.settings.tolerance)
            return found, products.count

    def _lambda_max(self, name: str, **where: Any) -> float:
        return float(self._largest(name, **where)[0].values[0])

    def _top(self, name: str = "top", k: int | None = None) -> dict[str, Any]:
        found, count = self._largest(name, k or self.settings.top)
        with atomic_writer(self.folder / VECTORS, "wb") as file:
            np.save(file, found.vectors[:, :2].T.astype(np.float32))
        values = found.values.tolist()
        entry = {"lambda_max": values[0], "eigenvalues": values}
        entry |= {"residuals": found.residuals.tolist(), "products": count}
        if len(values) >= 5 and values[4]:
            entry["lambda_max_over_lambda5"] = values[0] / values[4]
        return entry

    def _spectrum(self) -> dict[str, Any]:
        return self._top("spectrum", min(SPECTRUM, self.run_data.flat.num_parameters - 1))

    def _trace(self) -> dict[str, Any]:
        probes = self.settings.probes // 3 * 3
        with self._products("trace", probes) as products:
            found = spectrum.trace_and_norm(products, probes, self._rng("trace"))
        return {name: asdict(estimate) for name, estimate in found.items()} | {"products": probes}

    def _density(self) -> dict[str, Any]:
        probes, steps = DENSITY_PROBES, self.settings.steps
        with self._products("density", probes * steps) as products:
            found = spectrum.density(products, steps, probes, self._rng("density"))
        moments = {str(order): asdict(found.moment(order)) for order in (1, 2)}
        return {"nodes": found.nodes, "weights": found.weights, "moments": moments}

    def _sharpness(self) -> dict[str, Any]:
        s, surface = self.settings, self._surface()
        sam, norm = rise(surface, s.rho, s.ascent)
        asam, _ = rise(surface, s.asam_rho, s.ascent, s.eta)
        return {"sam": sam, "asam": asam, "gradient_norm": norm}

    def _clients(self) -> dict[str, Any]:
        values, residuals = {}, {}
        for client in self._each("clients", self._chosen_clients()):
            found, _ = self._largest(f"client {client}", data=self._samples(client))
            values[client], residuals[client] = found.values[0], found.residuals[0]
        quartiles = np.quantile(list(values.values()), [0, 0.25, 0.5, 0.75, 1])
        return {"lambda_max": values, "residuals": residuals, "quartiles": quartiles}

    def _chosen_clients(self) -> list[str]:
        return self.run_data.first_clients(self.settings.clients)

    def _fedalign(self) -> dict[str, Any]:
        clients, n = self._chosen_clients(), self.run_data.flat.num_parameters
        if len(clients) < 2:
            raise ConfigError("fedalign: compares clients, and there is only one")
        exact = n <= EXACT_DIAGONAL
        groups, each = (1, n) if exact else (3, self.settings.probes // 3)
        path = self.folder / "diagonals.npy"  # on disk: there may be many clients
        kind = np.float64 if exact else np.float32
        shape = (len(clients), groups, n)
        diagonals = np.lib.format.open_memmap(path, "w+", kind, shape)
        try:
            for number, client in enumerate(self._each("clients", clients)):
                where = {"data": self._samples(client)}
                with self._products(f"client {client}", groups * each, **where) as products:
                    for group in range(groups):
                        rng = None if exact else self._rng("diagonal", number, group)
                        diagonals[number, group] = spectrum.diagonal(products, each, rng)
            found = hessian_differences(gram_matrix(diagonals))
        finally:
            path.unlink(missing_ok=True)
        entry = {name: asdict(estimate) for name, estimate in found.items()}
        return {**entry, "clients": clients, "probes": None if exact else groups * each}

    def _participants(self) -> dict[str, Any]:
        local, everywhere = {}, {}
        everything = self._samples(personal=False)
        models = participants_models(self.run_data, self.checkpoint)
        for point in self._each("participants", models):
            own, text = self._samples(point.name, personal=False), f"client {point.name}"
            local[point.name] = self._lambda_max(f"{text}, own data", point=point, data=own)
            where = {"point": point, "data": everything}
            everywhere[point.name] = self._lambda_max(f"{text}, all data", **where)
        return {"lambda_max_local": local, "lambda_max_global": everywhere}

    def _features(self) -> dict[str, Any]:
        clients = {
            client: self._surface(data=self._samples(client)).feature_norms()
            for client in self._each("features", self._chosen_clients())
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
    return own_path(run_folder(checkpoint), f"{CURVATURE}/{'-'.join(words)}")
