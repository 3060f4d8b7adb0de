"""Pictures at the end of a run."""

import time
from pathlib import Path

from pydantic import NonNegativeInt

from fedseg.core.hook import FederatedHook, Run
from fedseg.registry import HOOKS


@HOOKS.register_module()
class PicturesHook(FederatedHook):
    """Writes ``pictures`` in the work dir: curves, IoU by class, a few predictions per domain.

    A run without evaluation gets none. An error here is a warning only: the run is finished and
    its results are written.

    Args:
        images: predicted images of every domain; 0: none.
    """

    priority = "LOWEST"

    def __init__(self, images: NonNegativeInt = 3) -> None:
        self.images = images

    def after_run(self, runner: Run) -> None:
        if runner.val_loop is None:
            return
        begin, folder = time.perf_counter(), Path(runner.work_dir) / "pictures"
        try:
            from fedseg.report import pictures  # Matplotlib

            loop = runner.val_loop
            palette = pictures.classes_of(loop.sets[0]).palette
            paths = pictures.write_charts(runner.work_dir, folder, palette)
            if self.images:
                model = runner.evaluated_model()
                paths += pictures.write_overlays(loop.domains, *model, folder, self.images)
        except Exception as error:  # a picture is never worth a finished run
            runner.logger.warning(f"pictures: not all could be drawn: {error!r}")
            return
        seconds = time.perf_counter() - begin
        runner.logger.info(f"pictures: {len(paths)} files in {seconds:.1f} s")
