"""A sweep as a job array of Slurm: one array task a run."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from fedseg.runner.sweep import THREADS, Job

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=fedseg
#SBATCH --array={array}
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
# resources: sbatch --gpus=1 --cpus-per-task=8 --time=24:00:00 FILE
cd {folder} || exit 1
export PYTHONSAFEPATH=1 {threads_variable}={threads}
case $SLURM_ARRAY_TASK_ID in
{tasks}
esac
run=$!
# before the time limit: the run saves its rounds, and the task is queued again
trap 'kill -TERM $run; wait $run; scontrol requeue $SLURM_JOB_ID' TERM
wait $run
"""


def array_script(
    jobs: Sequence[Job], folder: Path, at_once: int | None = None, threads: int | None = None
) -> str:
    """The script of a job array that trains what is not finished.

    A task that starts again resumes its run.

    Args:
        jobs: runs of a plan.
        folder: from which the paths of the runs are.
        at_once: array tasks at a time; None: as many as the cluster runs.
        threads: of each run; None: the task's cores.
    """
    waiting = [job for job in jobs if not job.results.is_file()]
    array = f"0-{len(waiting) - 1}"
    tasks = [f"  {task}) {shlex.join(job.resume_command)} & ;;" for task, job in enumerate(waiting)]
    return SCRIPT.format(
        array=array if at_once is None else f"{array}%{at_once}",
        folder=shlex.quote(str(folder)),
        threads_variable=THREADS,
        threads=threads or "${SLURM_CPUS_PER_TASK:-1}",
        tasks="\n".join(tasks),
    )
