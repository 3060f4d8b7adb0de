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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from fedseg.core.seeds import generator_for
from fedseg.curvature import spectrum
from fedseg.curvature.checkpoint import RunData, check_average
from fedseg.curvature.clients import gram_matrix, hessian_differences, participants_models
from fedseg.curvature.settings import BATCH, TRAIN, USED, Settings
from fedseg.curvature.sharpness import rise
from fedseg.curvature.surface import LossSurface, Point
from fedseg.errors import ConfigError, DataError, TrainingError
from fedseg.files import atomic_writer, read_json, write_text
from fedseg.runner.checkpoint import run_folder
from fedseg.runner.work_dir import hold
from fedseg.runs.curvature_files import CURVATURE, FILE_NAME
from fedseg.runs.from_json import digest, own_folder
from fedseg.runs.history import plain

SCHEMA_VERSION = 1
VECTORS = "eigenvectors.npy"  # float32 [2, n], the parameters one after the other, without gaps
EXACT_DIAGONAL = 2000  # parameters up to which a diagonal is computed by unit vectors
SPECTRUM, DENSITY_PROBES = 50, 10
SAME = ("checkpoint_sha256", "changed", "data", "data_sha256", "parameters", "dtype")
SHARED = ("client", "samples", "augment", "statistics", "matrix", "averaged", "batch_size")


class Measurement:
    """The quantities of one checkpoint.

    Args:
        run: its run. checkpoint: its file. settings: see there.
        folder: where ``curvature.json`` goes; None: ``curvature/<checkpoint's name>`` of the run.
    """

    def __init__(
        self, run: RunData, checkpoint: Path, settings: Settings, folder: Path | None = None
    ) -> None:
        self.run, self.checkpoint = run, checkpoint
        self.point = run.load(checkpoint, settings.averaged)
        check_average(run, checkpoint, settings.averaged)
        if settings.client is not None:
            settings = replace(settings, data=TRAIN)
        if run.policy is not None and settings.data != TRAIN:  # no client has statistics for it
            settings = replace(settings, statistics=BATCH)
        self.settings = settings
        self.folder = folder or default_folder(checkpoint, settings, run.changed)
        columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
        console = Console(stderr=True)
        hidden = {"disable": not console.is_terminal, "transient": True}
        self._bars = Progress(*columns, console=console, **hidden)
        self.data = self._samples()
        self.result: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            **run.identity(checkpoint),
            "data": settings.data,
            "data_sha256": run.checksum(settings.data),
            "changed": run.changed,
        }

    def measure(self, quantities: Sequence[str]) -> dict[str, Any]:
        """Measure what is not there yet; returns the content of ``curvature.json``.

        Raises:
            ConfigError: a quantity has no meaning here; another process measures.
        """
        with hold(self.folder), self._bars:
            found = self.result["quantities"] = self._earlier()
            for name in quantities:
                used = {key: getattr(self.settings, key) for key in (*SHARED, *USED[name])}
                if (found.get(name) or {}).get("settings") == used:
                    self._bars.console.print(f"{name}: measured before", markup=False)
                    continue
                begin = time.perf_counter()
                try:
                    entry = getattr(self, f"_{name}")()
                except (ArithmeticError, ValueError) as error:
                    about = f"{self.checkpoint}: {name}: cannot be computed: is its loss finite?"
                    raise TrainingError(f"{about} ({error})") from error
                seconds = time.perf_counter() - begin
                about = {"num_samples": len(self.data), "settings": used, "seconds": seconds}
                found[name] = plain({**entry, **about})
                text = json.dumps(self.result, indent=2, allow_nan=False)
                write_text(self.folder / FILE_NAME, f"{text}\n")
                self._bars.console.print(f"{name}: {seconds:.1f} s", markup=False)
        return self.result

    def _earlier(self) -> dict[str, Any]:
        """What was measured of the same checkpoint and data before; a damaged file has nothing."""
        try:
            found = read_json(self.folder / FILE_NAME)
            same = all(found[name] == self.result[name] for name in SAME)
            quantities = found["quantities"].items() if same else ()
            return {name: entry for name, entry in quantities if isinstance(entry, dict)}
        except (DataError, KeyError, TypeError, AttributeError):
            return {}

    # ---------------------------------------------------------------- parts of quantities

    def _samples(self, client: str | None = None, **options: Any) -> Any:
        s, client = self.settings, client or self.settings.client
        name = TRAIN if client is not None else s.data
        options["evaluated"] = s.statistics == BATCH
        return self.run.samples(name, client, s.samples, s.batch_size, s.augment, **options)

    def _surface(self, data: Any = None, point: Point | None = None) -> LossSurface:
        where = data or self.data, point or self.point
        return LossSurface(self.run.flat, *where, self.settings.statistics)

    def _rng(self, name: str, *counters: int) -> np.random.Generator:
        return generator_for(self.run.seed, f"curvature {name}", *counters)

    @contextmanager
    def _products(self, text: str, total: int, more: int = 0, **where: Any) -> Iterator[Any]:
        """Products that a bar counts; ``more``: ``total`` is what is certain, and grows by it."""
        text = escape(f"{text}: products" + ", at least" * bool(more))
        number = self._bars.add_task(text, total=total)
        bar = self._bars.tasks[-1]

        def tick() -> None:
            grown = more if bar.completed >= bar.total else 0
            self._bars.update(number, advance=1, total=bar.total + grown)

        yield self._surface(**where).products(self.settings.matrix, tick)
        self._bars.remove_task(number)

    def _largest(self, name: str, k: int = 1, **where: Any) -> tuple[spectrum.Spectrum, int]:
        basis = spectrum.basis_size(self.run.flat.num_parameters, k)
        with self._products(name, basis + k, max(1, basis - k), **where) as products:
            found = spectrum.largest(products, k, self._rng("top"), self.settings.tolerance)
            return found, products.count

    def _clients_measured(self, text: str) -> Iterator[tuple[str, Any]]:
        clients = self.run.first_clients(self.settings.clients)
        for client in self._bars.track(clients, description=text):
            yield client, self._samples(client)

    # ---------------------------------------------------------------- quantities

    def _loss(self) -> dict[str, Any]:
        loss, metrics = self._surface().loss(metrics=True)
        gradient, _ = self._surface().gradient()
        norms = {"gradient_norm": float(gradient.norm()), "norm_w": float(self.point.w.norm())}
        return {"loss": loss, "metrics": metrics, **norms}

    def _top(self, name: str = "top", k: int | None = None) -> dict[str, Any]:
        found, count = self._largest(name, k or self.settings.top)
        with atomic_writer(self.folder / VECTORS, "wb") as file:
            np.save(file, found.vectors[:, :2].T.astype(np.float32))
        values = found.values
        entry = {"lambda_max": values[0], "eigenvalues": values}
        if len(values) >= 5 and values[4]:
            entry["lambda_max_over_lambda5"] = values[0] / values[4]
        return {**entry, "residuals": found.residuals, "products": count}

    def _spectrum(self) -> dict[str, Any]:
        return self._top("spectrum", min(SPECTRUM, self.run.flat.num_parameters - 1))

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
        return {**asdict(found), "moments": moments}

    def _sharpness(self) -> dict[str, Any]:
        s, surface = self.settings, self._surface()
        sam, norm = rise(surface, s.rho, s.ascent)
        asam, _ = rise(surface, s.asam_rho, s.ascent, s.eta)
        return {"sam": sam, "asam": asam, "gradient_norm": norm}

    def _clients(self) -> dict[str, Any]:
        values, residuals = {}, {}
        for client, data in self._clients_measured("clients"):
            found, _ = self._largest(f"client {client}", data=data)
            values[client], residuals[client] = found.values[0], found.residuals[0]
        quartiles = np.quantile(list(values.values()), [0, 0.25, 0.5, 0.75, 1])
        return {"lambda_max": values, "residuals": residuals, "quartiles": quartiles}

    def _fedalign(self) -> dict[str, Any]:
        clients = self.run.first_clients(self.settings.clients)
        n = self.run.flat.num_parameters
        if len(clients) < 2:
            raise ConfigError("fedalign: compares clients, and there is only one")
        exact = n <= EXACT_DIAGONAL
        groups = 1 if exact else min(9, max(3, self.settings.probes // 10))
        each = n if exact else self.settings.probes // groups
        kind = np.float64 if exact else np.float32
        with TemporaryFile(dir=self.folder) as file:  # on disk: there may be many clients
            diagonals = np.memmap(file, kind, "w+", shape=(len(clients), groups, n))
            for number, (client, data) in enumerate(self._clients_measured("clients")):
                with self._products(f"client {client}", groups * each, data=data) as products:
                    for group in range(groups):
                        rng = None if exact else self._rng("diagonal", number, group)
                        diagonals[number, group] = spectrum.diagonal(products, each, rng)
            found = hessian_differences(gram_matrix(diagonals))
        entry = {name: asdict(estimate) for name, estimate in found.items()}
        return {**entry, "clients": clients, "probes": None if exact else groups * each}

    def _participants(self) -> dict[str, Any]:
        found: dict[str, dict[str, float]] = {"lambda_max_local": {}, "lambda_max_global": {}}
        if self.settings.client is not None:
            raise ConfigError("--client: participants are measured on all data, too: leave it out")
        everything = self._samples(personal=False)
        models = participants_models(self.run, self.checkpoint)
        for point in self._bars.track(models, description="participants"):
            own = self._samples(point.name, personal=False)
            for values, data in zip(found.values(), (own, everything), strict=True):
                text = f"client {point.name}, {'own' if data is own else 'all'} data"
                values[point.name] = self._largest(text, data=data, point=point)[0].values[0]
        return found

    def _features(self) -> dict[str, Any]:
        measured = self._clients_measured("features")
        clients = {client: self._surface(data).feature_norms() for client, data in measured}
        return {"norm_by_class": self._surface().feature_norms(), "of_clients": clients}


def default_folder(checkpoint: Path, settings: Settings, changed: Sequence[str] = ()) -> Path:
    """``curvature/<checkpoint's name>`` in its run, with what differs from the usual settings.

    Args:
        changed: overrides of the run's config.
    """
    words, usual = [checkpoint.stem], Settings()
    for name in ("data", "client", "matrix", "statistics"):
        if (value := getattr(settings, name)) != getattr(usual, name):
            words.append(value.replace("/", "_"))
    words += ["augmented"] * settings.augment + ["global"] * (not settings.averaged)
    if changed:
        words.append(f"changed-{digest(changed)[:8]}")
    return own_folder(run_folder(checkpoint), f"{CURVATURE}/{'-'.join(words)}")
