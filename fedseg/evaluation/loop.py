"""The evaluation loops of a run: every domain, the averaged model where there is one."""

from collections.abc import Mapping
from typing import Any

from mmengine.runner import BaseLoop

from fedseg.errors import ConfigError
from fedseg.evaluation.domains import DomainEvaluator, EvaluatedRun
from fedseg.evaluation.sets import EvaluationSet, build_evaluation_set
from fedseg.metric_names import global_name
from fedseg.registry import LOOPS


@LOOPS.register_module()
class FederatedValLoop(BaseLoop):
    """Evaluates the averaged model where there is one, else the global model, on every domain.

    Args:
        runner, dataloader, evaluator: given by the runner; ``dataloader`` maps domain names to
            loader configs.
        evaluate_global: with an averaged model, evaluate the global one too; its metrics are named
            ``global:<domain>/<metric>``.
    """

    kind = "val"

    def __init__(
        self,
        runner: EvaluatedRun,
        dataloader: Mapping[str, Mapping[str, Any]],
        evaluator: Any,
        evaluate_global: bool = False,
    ) -> None:
        self._runner = runner
        built = {
            name: build_evaluation_set(name, config, evaluator, self.kind, runner.flat.w)
            for name, config in dataloader.items()
            if config is not None
        }
        self.missing = [name for name, test in built.items() if test is None]
        for name in self.missing:
            runner.logger.warning(
                f"{self.kind}_dataloader.{name}: its data are not there, so it is left out "
                "(it is optional)"
            )
        self.sets = [test for test in built.values() if test is not None]
        if not self.sets:
            raise ConfigError(f"{self.kind}_dataloader: the data of no domain are there")
        self.domains = DomainEvaluator(runner, self.sets)
        self.evaluate_global = evaluate_global
        self.details: dict[str, Any] = {}

    def _is_due(self, test: EvaluationSet, round_: int) -> bool:
        return not test.final_only or round_ >= self.runner.max_rounds

    def num_predictions(self, round_: int) -> int:
        """The number of images that :meth:`run` predicts after a round."""
        sets = [test for test in self.sets if self._is_due(test, round_)]
        count = self.domains.num_predictions(sets)
        if self.evaluate_global and self.runner.averaging is not None:
            count += self.domains.num_predictions(test for test in sets if not test.final_only)
        return count

    def run(self, on_prediction: Any = None) -> dict[str, float]:
        """Evaluate; returns the metrics by name."""
        runner = self.runner
        runner.call_hook(f"before_{self.kind}")
        w, buffers = runner.evaluated_model()
        sets = [test for test in self.sets if self._is_due(test, runner.round)]
        metrics = self.domains.run(w, buffers, on_prediction, sets)
        details = self.domains.details
        if self.evaluate_global and runner.averaging is not None:
            sets = [test for test in sets if not test.final_only]
            others = self.domains.run(runner.server.w, runner.server.buffers, None, sets)
            metrics |= {global_name(name): value for name, value in others.items()}
            details |= {global_name(name): entry for name, entry in self.domains.details.items()}
        self.details = details
        runner.call_hook(f"after_{self.kind}_epoch", metrics=metrics)
        runner.call_hook(f"after_{self.kind}")
        return metrics


@LOOPS.register_module()
class FederatedTestLoop(FederatedValLoop):
    """As :class:`FederatedValLoop`, for ``fedseg test``: every set, whatever the round."""

    kind = "test"

    def _is_due(self, test: EvaluationSet, round_: int) -> bool:
        return True
