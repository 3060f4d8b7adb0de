"""Quantities of a checkpoint, each written to ``curvature.json`` as soon as it is done.

They are of the mean loss L_D over data D and its Hessian H; docs/flatness.md defines them.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from fedseg.cli import progress
from fedseg.config.arguments import read_model
from fedseg.core.seeds import generator_for
from fedseg.curvature import spectrum
from fedseg.curvature.checkpoint import RunData, find_checkpoints
from fedseg.curvature.clients import gram_matrix, hessian_differences, load_model, train_models
from fedseg.curvature.products import Products
from fedseg.curvature.settings import BATCH, TRAIN, USED, Settings, Source
from fedseg.curvature.surface import LossSurface, Point, Samples
from fedseg.errors import ConfigError, DataError, TrainingError
from fedseg.files import atomic_writer, digest, own_folder, read_json, write_text
from fedseg.runner.checkpoint import run_folder
from fedseg.runner.work_dir import lock_work_dir
from fedseg.runs.curvature_files import CURVATURE, FILE_NAME, CurvatureFile
from fedseg.runs.history import plain

SCHEMA_VERSION = 1
VECTORS = "eigenvectors.npy"  # float32 [2, n], the parameters one after the other, without gaps
EXACT_DIAGONAL = 2000  # parameters up to which a diagonal is computed by unit vectors
SPECTRUM, DENSITY_PROBES = 50, 10
SAME = ("checkpoint_sha256", "trained_by", "changed", "data", "data_sha256", "parameters", "dtype")
SHARED = ("client", "samples", "augment", "statistics", "matrix", "averaged", "batch_size")


class Measurement:
    """The quantities of a source's only model."""

    def __init__(
        self, run: RunData, source: Source, settings: Settings, folder: Path | None = None
    ) -> None:
        (model,), (checkpoint,) = source.models(), find_checkpoints(source)
        self.run, self.checkpoint = run, checkpoint
        self.point = load_model(source, 0, run, checkpoint)
        settings = replace(settings, averaged=model.averaged, trained_by=model.client)
        if settings.client is not None:
            settings = replace(settings, data=TRAIN)
        foreign = run.local_state is not None and settings.data != TRAIN and model.client is None
        if foreign:  # no client has statistics for it
            settings = replace(settings, statistics=BATCH)
        self.settings = settings
        self.folder = folder or default_folder(checkpoint, settings, run.changed)
        self._bars = progress(transient=True)
        self.data = self._samples()
        self.result: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            **run.identity(checkpoint),
            "trained_by": settings.trained_by,
            "data": settings.data,
            "data_sha256": run.checksum(settings.data),
            "changed": run.changed,
        }

    def measure(self, names: Sequence[str]) -> dict[str, Any]:
        """Measure the quantities that are not there yet; returns what ``curvature.json`` holds."""
        with lock_work_dir(self.folder), self._bars:
            quantities = self.result["quantities"] = self._read_earlier()
            for name in names:
                used = {key: getattr(self.settings, key) for key in (*SHARED, *USED[name])}
                if quantities.get(name, {}).get("settings") == used:
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
                quantities[name] = plain({**entry, **about})
                text = json.dumps(self.result, indent=2, allow_nan=False)
                write_text(self.folder / FILE_NAME, f"{text}\n")
                self._bars.console.print(f"{name}: {seconds:.1f} s", markup=False)
        return self.result

    def _read_earlier(self) -> dict[str, Any]:
        """Quantities of the same checkpoint and data, measured before; a damaged file is told."""
        path = self.folder / FILE_NAME
        try:
            earlier = read_model(CurvatureFile, read_json(path), path)
        except DataError as error:
            if path.exists():
                self._bars.console.print(f"{error}: measured anew", markup=False)
            return {}
        if any(getattr(earlier, name) != self.result[name] for name in SAME):
            return {}
        whole = {"num_samples", "settings", "seconds"}
        return {name: q for name, q in earlier.quantities.items() if whole <= q.keys()}

    def _samples(self, client: str | None = None, personal: bool = True) -> Samples:
        s, client = self.settings, client or self.settings.client
        personal = personal and s.trained_by is None
        name, evaluated = TRAIN if client is not None else s.data, s.statistics == BATCH
        options = s.samples, s.batch_size, s.augment, personal, evaluated
        return self.run.samples(name, client, *options)

    def _surface(self, data: Samples | None = None, point: Point | None = None) -> LossSurface:
        where = data or self.data, point or self.point
        return LossSurface(self.run.flat, *where, self.settings.statistics)

    def _rng(self, name: str, *counters: int) -> np.random.Generator:
        return generator_for(self.run.seed, f"curvature {name}", *counters)

    @contextmanager
    def _products(self, surface: LossSurface, total: int | None = None) -> Iterator[Products]:
        """Products, counted on a bar; ``total`` of them if that is known before."""
        bar = self._bars.add_task("products", total=total)
        yield Products(surface, self.settings.matrix, lambda: self._bars.advance(bar))
        self._bars.remove_task(bar)

    def _largest(self, surface: LossSurface, k: int = 1) -> tuple[spectrum.Spectrum, int]:
        with self._products(surface) as products:
            largest = spectrum.largest(products, k, self._rng("top"), self.settings.tolerance)
            return largest, products.count

    def _clients_data(self) -> Iterator[tuple[str, Samples]]:
        clients = self.run.first_clients(self.settings.clients)
        for client in self._bars.track(clients, description="clients"):
            yield client, self._samples(client)

    def _loss(self) -> dict[str, Any]:
        loss, metrics = self._surface().loss(metrics=True)
        gradient, _ = self._surface().gradient()
        norms = {"gradient_norm": float(gradient.norm()), "norm_w": float(self.point.w.norm())}
        return {"loss": loss, "metrics": metrics, **norms}

    def _spectrum(self) -> dict[str, Any]:
        return self._top(min(SPECTRUM, self.run.flat.num_parameters - 1))

    def _top(self, k: int | None = None) -> dict[str, Any]:
        """The ratio lambda_1 / lambda_5 is that of Caldarola et al. (ECCV 2022), table 1."""
        largest, count = self._largest(self._surface(), k or self.settings.top)
        with atomic_writer(self.folder / VECTORS, "wb") as file:
            np.save(file, largest.vectors[:, :2].T.astype(np.float32))
        values = largest.values
        entry = {"lambda_max": values[0], "eigenvalues": values}
        if len(values) >= 5 and values[4]:
            entry["lambda_max_over_lambda5"] = values[0] / values[4]
        return {**entry, "residuals": largest.residuals, "products": count}

    def _trace(self) -> dict[str, Any]:
        """H_T of FedAlign (table 1), and the Frobenius norm."""
        probes = self.settings.probes // 3 * 3
        with self._products(self._surface(), probes) as products:
            estimates = spectrum.trace_and_norm(products, probes, self._rng("trace"))
        entry = {name: asdict(estimate) for name, estimate in estimates.items()}
        return {**entry, "products": probes}

    def _density(self) -> dict[str, Any]:
        probes, steps = DENSITY_PROBES, self.settings.steps
        with self._products(self._surface(), probes * steps) as products:
            density = spectrum.density(products, steps, probes, self._rng("density"))
        moments = {str(order): asdict(density.moment(order)) for order in (1, 2)}
        return {**asdict(density), "moments": moments}

    def _sharpness(self) -> dict[str, Any]:
        s, surface = self.settings, self._surface()
        sam, norm = surface.rise(s.rho, s.ascent)
        asam, _ = surface.rise(s.asam_rho, s.ascent, s.eta)
        return {"sam": sam, "asam": asam, "gradient_norm": norm}

    def _clients(self) -> dict[str, Any]:
        """lambda_max of the global model on each client's data (ECCV 2022's bars)."""
        values, residuals = {}, {}
        for client, data in self._clients_data():
            largest, _ = self._largest(self._surface(data))
            values[client], residuals[client] = largest.values[0], largest.residuals[0]
        quartiles = np.quantile(list(values.values()), [0, 0.25, 0.5, 0.75, 1])
        return {"lambda_max": values, "residuals": residuals, "quartiles": quartiles}

    def _fedalign(self) -> dict[str, Any]:
        """H_N and H_D, from the diagonals of the clients' Hessians at the global model."""
        clients = self.run.first_clients(self.settings.clients)
        n = self.run.flat.num_parameters
        if len(clients) < 2:
            raise ConfigError("fedalign: compares clients, and there is only one")
        exact = n <= EXACT_DIAGONAL
        groups = 1 if exact else min(9, max(3, self.settings.probes // 10))
        probes = n if exact else self.settings.probes // groups
        dtype = np.float64 if exact else np.float32
        with TemporaryFile(dir=self.folder) as file:  # on disk: there may be many clients
            diagonals = np.memmap(file, dtype, "w+", shape=(len(clients), groups, n))
            for number, (_, data) in enumerate(self._clients_data()):
                with self._products(self._surface(data), groups * probes) as products:
                    for group in range(groups):
                        rng = None if exact else self._rng("diagonal", number, group)
                        diagonals[number, group] = spectrum.diagonal(products, probes, rng)
            differences = hessian_differences(gram_matrix(diagonals))
        entry = {name: asdict(estimate) for name, estimate in differences.items()}
        return {**entry, "clients": clients, "probes": None if exact else groups * probes}

    def _participants(self) -> dict[str, Any]:
        """lambda_max of the trained models on their own data and on D (FedGloSS, table 1)."""
        if self.settings.client is not None:
            raise ConfigError("--client: participants are measured on all data, too: leave it out")
        models, everything = self._train(), self._samples(personal=False)
        local, everywhere = self._of_trained(models), self._of_trained(models, everything)
        return {"lambda_max_local": local, "lambda_max_global": everywhere}

    def _updated(self) -> dict[str, Any]:
        """lambda_max of the model that each client trains from this one, on its own data."""
        clients = self.run.first_clients(self.settings.clients)
        return {"lambda_max": self._of_trained(self._train(clients))}

    def _train(self, clients: Sequence[str] | None = None) -> list[Point]:
        if self.settings.trained_by is not None:
            raise ConfigError(":client=: clients train from the global model: leave it out")
        return train_models(self.run, self.checkpoint, clients)

    def _of_trained(self, models: list[Point], data: Samples | None = None) -> dict[str, float]:
        """By client lambda_max of its trained model on data, or on its own."""
        values = {}
        for point in self._bars.track(models, description="trained models"):
            where = data or self._samples(point.name, personal=False)
            values[point.name] = self._largest(self._surface(where, point))[0].values[0]
        return values

    def _features(self) -> dict[str, Any]:
        """Norms of the activations before the last layer, and of its outputs."""
        every, clients = self._surface().feature_norms(), defaultdict(dict)
        for client, data in self._clients_data():
            for kind, norms in self._surface(data).feature_norms().items():
                clients[kind][client] = norms
        of_outputs = {"output_norm_by_class": every["outputs"]}
        of_outputs["outputs_of_clients"] = clients["outputs"]
        return {"norm_by_class": every["features"], "of_clients": clients["features"], **of_outputs}


def default_folder(checkpoint: Path, settings: Settings, changed: Sequence[str] = ()) -> Path:
    """``curvature/<checkpoint's name>`` in its run, and the settings that are not the default."""
    words, usual = [checkpoint.stem], Settings()
    for name in ("data", "client", "matrix", "statistics"):
        if (value := getattr(settings, name)) != getattr(usual, name):
            words.append(value.replace("/", "_"))
    words += ["augmented"] * settings.augment
    if settings.trained_by is not None:
        words.append(f"trained_by_{settings.trained_by}".replace("/", "_"))
    elif not settings.averaged:
        words.append("global")
    if changed:
        words.append(f"changed-{digest(changed)[:8]}")
    return own_folder(run_folder(checkpoint), f"{CURVATURE}/{'-'.join(words)}")
