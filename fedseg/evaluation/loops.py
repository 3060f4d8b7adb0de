"""The loops that evaluate a run's model: between rounds, and of a checkpoint."""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from mmengine.runner import BaseLoop
from pydantic import PositiveInt

from fedseg.config.arguments import Positive
from fedseg.errors import ConfigError
from fedseg.evaluation.clients import accuracy_in_mix, class_counts
from fedseg.evaluation.domains import DomainEvaluator
from fedseg.evaluation.run import EvaluatedRun
from fedseg.evaluation.sets import EvaluationSet, build_evaluation_set
from fedseg.files import write_text
from fedseg.loaders.partitioned import PartitionedData
from fedseg.metric_names import BY_DOMAIN, FINE_TUNED, PERSONAL, global_name
from fedseg.registry import LOOPS


@LOOPS.register_module()
class FederatedValLoop(BaseLoop):
    """Evaluates the averaged model where there is one, else the global model, on every domain.

    Args:
        runner, dataloader, evaluator: given by the runner; ``dataloader`` maps domain names to
            loader configs.
        evaluate_global: with an averaged model, evaluate the global one too; its metrics are named
            ``global:<domain>/<metric>``.
        views: besides the model itself; see :class:`DomainEvaluator`. The fine-tuned view is of the
            last round, and brings the personal one as what was before.
        spread: count by domain too: mean, deviation and worst ones of a set's domains. None: where
            metrics of label maps are counted.
        fine_tune_steps, fine_tune_lr: of the fine-tuned view; None: the rate of ``optim_wrapper``.
    """

    kind = "val"

    def __init__(
        self,
        runner: EvaluatedRun,
        dataloader: Mapping[str, Mapping[str, Any]],
        evaluator: Any,
        evaluate_global: bool = False,
        views: Sequence[Literal["by_domain", "personal", "fine_tuned"]] = (BY_DOMAIN,),
        spread: bool | None = None,
        fine_tune_steps: PositiveInt = 10,
        fine_tune_lr: Positive | None = None,
    ) -> None:
        self._runner = runner
        built = {
            name: build_evaluation_set(name, config, evaluator, self.kind, runner.flat.w)
            for name, config in dataloader.items()
            if config is not None
        }
        self.missing = [name for name, test in built.items() if test is None]
        for name in self.missing:
            runner.logger.info(
                f"skipping optional test set {name!r}: no data found in "
                f"{dataloader[name]['dataset'].get('data_root')}"
            )
        self.sets = [test for test in built.values() if test is not None]
        for test in self.sets:
            if test.held_out:
                test.hold_out(runner.held_out)
        if not self.sets:
            raise ConfigError(f"{self.kind}_dataloader: no domain has data")
        tuning = (fine_tune_steps, fine_tune_lr)
        self.domains = DomainEvaluator(runner, self.sets, views, spread, tuning)
        if spread:
            for test in self.sets:
                test.count_by(self.domains.groups(test))  # what does not count is refused now
        if FINE_TUNED in views and not isinstance(runner.data, PartitionedData):
            raise ConfigError(
                f"{self.kind}_cfg.views: fine_tuned needs train_dataloader.type of StreamingData, "
                f"ResidentData or another PartitionedData, not {type(runner.data).__name__}"
            )
        of_clients = {PERSONAL, FINE_TUNED} & set(views)
        if of_clients and not any(map(self.domains.client_images, self.sets)):
            runner.logger.warning(
                f"{self.kind}_cfg.views: no test set has images of clients for "
                f"{', '.join(sorted(of_clients))}: hold some out with "
                "train_dataloader.partition.holdout"
            )
        self.evaluate_global = evaluate_global
        self.details: dict[str, Any] = {}
        # of the last evaluation, as ``DomainEvaluator.tables``
        self.tables: dict[str, Any] = {"sets": {}, "all": {}}

    def _due(self, round_: int) -> tuple[list[EvaluationSet], bool]:
        """The sets to evaluate after a round, and whether it is the last one."""
        final = self.kind == "test" or round_ >= self.runner.max_rounds
        return [test for test in self.sets if not test.final_only or final], final

    def num_predictions(self, round_: int) -> int:
        """The number of images that :meth:`run` predicts after a round."""
        sets, final = self._due(round_)
        count = self.domains.num_predictions(sets, final)
        if self.evaluate_global and self.runner.averaging is not None:
            sets = [test for test in sets if not test.final_only]
            count += self.domains.num_predictions(sets, final)
        return count

    def run(self, on_prediction: Any = None) -> dict[str, float]:
        """Evaluate; returns the metrics by name."""
        runner = self.runner
        runner.call_hook(f"before_{self.kind}")
        w, buffers = runner.evaluated_model()
        sets, final = self._due(runner.round)
        self.domains.confusions = {} if self.kind == "test" else None
        metrics = self.domains.run(w, buffers, on_prediction, sets, final)
        self.confusions, self.domains.confusions = self.domains.confusions, None
        details, self.tables = self.domains.details, self.domains.tables
        if self.evaluate_global and runner.averaging is not None:
            sets = [test for test in sets if not test.final_only]
            server = runner.server
            of_global = self.domains.run(server.w, server.buffers, None, sets, final)
            metrics |= {global_name(name): value for name, value in of_global.items()}
            details |= {global_name(name): entry for name, entry in self.domains.details.items()}
        self.details = details
        if self.kind == "val" and runner.train_loop.pending is not None:
            self._note_clients(runner.train_loop.pending)
        runner.call_hook(f"after_{self.kind}_epoch", metrics=metrics)
        runner.call_hook(f"after_{self.kind}")
        return metrics

    def _note_clients(self, record: dict[str, Any]) -> None:
        """Write ``clients.json``; add ``client_accuracy`` (of the global model) to a line."""
        if self.tables["sets"]:
            path = Path(self.runner.work_dir) / "clients.json"
            content = {"round": record["round"], **self.tables}
            write_text(path, json.dumps(content, indent=1) + "\n")
        names = [test.name for test in self.sets]
        for name in (*map(global_name, names), *names):
            for key, entry in self.details.items():
                if f"{key}/".startswith(f"{name}/") and entry.get("accuracy_by_class"):
                    accuracies = accuracy_in_mix(self.runner.data, entry["accuracy_by_class"])
                    record |= {"client_accuracy": accuracies} if accuracies else {}
                    return

    def results(self, runner: EvaluatedRun, history: list[dict[str, Any]]) -> dict[str, Any]:
        """``client_accuracy`` of ``results.json``: the clients of the history's accuracies."""
        if not any(record.get("client_accuracy") for record in history):
            return {}
        table = {
            "images": "test",
            "clients": list(runner.data.clients),
            "classes": list(runner.data.dataset.metainfo["classes"]),
            "main_class": class_counts(runner.data).argmax(axis=1).tolist(),
        }
        return {"client_accuracy": table}


@LOOPS.register_module()
class FederatedTestLoop(FederatedValLoop):
    """As :class:`FederatedValLoop`, for ``fedseg test``: every set, whatever the round."""

    kind = "test"
