"""The files for Slurm and Kubernetes on the page on clients in parallel are those of a cluster."""

import os
import re
import shlex
import subprocess

import pytest
import yaml
from command_lines import parse
from doc_pages import ROOT, blocks

BLOCKS = blocks(ROOT / "docs" / "parallel.md")
STUB = '#!/bin/sh\necho "$(basename "$0") $*" >>"$CALLS"\n'


def slurm_calls(folder, *arguments, nodes=4):
    """What the job's script starts: the programs that it calls only say how they were called."""
    script = next(b.text for b in BLOCKS if b.text.startswith("#!/bin/bash"))
    (folder / "bin").mkdir()
    hosts = "\n".join(f"echo n{n}" for n in range(1, nodes + 1)) + "\n"
    for name in ("srun", "sleep", "fedseg", "scontrol", "ray"):
        path = folder / "bin" / name
        path.write_text(STUB + hosts * (name == "scontrol"))
        path.chmod(0o755)
    (folder / "fedseg.sbatch").write_text(script)
    variables = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "CALLS": str(folder / "calls"),
        "SLURM_NNODES": str(nodes),
        "SLURM_JOB_NODELIST": f"n[1-{nodes}]",
        "SLURM_CPUS_PER_TASK": "32",
        "SLURM_JOB_ID": "7",
    }
    command = ["bash", "-eu", folder / "fedseg.sbatch", *arguments]
    # until the programs in the background have ended too: they hold the pipe
    subprocess.run(
        command, env=variables, cwd=folder, check=True, timeout=60, stdout=subprocess.PIPE
    )
    subprocess.run(["bash", "-n", folder / "fedseg.sbatch"], check=True)
    return script, sorted(set((folder / "calls").read_text().splitlines()))


def test_the_slurm_job_starts_ray_on_every_node_and_the_run_on_the_first(tmp_path, monkeypatch):
    start = pytest.importorskip("ray.scripts.scripts").start
    script, calls = slurm_calls(tmp_path, "configs/idda_rainy_fedasam_swa.py")
    steps = [call for call in calls if call.startswith("srun")]
    head, others = sorted(steps, key=lambda call: "--head" not in call)
    assert len(steps) == 2 and "-w n1" in head and "--nodes=1 --ntasks=1" in head
    assert "-x n1" in others and "--nodes=3 --ntasks=3" in others and "--address=n1:6379" in others
    known = {option for parameter in start.params for option in parameter.opts}
    for step in steps:
        asked = shlex.split(step.partition(" ray start ")[2])
        assert asked and {option.partition("=")[0] for option in asked} <= known
    (run,) = (call for call in calls if call.startswith("fedseg"))
    parsed = parse(run)
    per_node = int(re.search(r"--gpus-per-node=(\d+)", script)[1])
    assert parsed.workers == 4 * per_node and parsed.resume
    assert parsed.options == ["executor.address=n1:6379"]


def test_the_job_of_kuberay_has_a_gpu_for_every_worker_and_one_work_dir():
    (job,) = (yaml.safe_load(block.text) for block in BLOCKS if block.language == "yaml")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    spec = job["spec"]["rayClusterSpec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    gpus = 0
    for group in groups:
        pod = group["template"]["spec"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        (container,) = pod["containers"]
        mounts = {m["mountPath"]: volumes[m["name"]] for m in container["volumeMounts"]}
        assert mounts["/shared"]["persistentVolumeClaim"]
        assert mounts["/dev/shm"]["emptyDir"]["medium"] == "Memory"
        gpus += group.get("replicas", 1) * container["resources"]["limits"].get("nvidia.com/gpu", 0)
    assert groups[0]["rayStartParams"]["num-cpus"] == "0"  # no client is trained on the head
    assert len({g["template"]["spec"]["containers"][0]["image"] for g in groups}) == 1
    command = job["spec"]["entrypoint"]
    assert command.startswith("fedseg train ")  # the image has no clone
    parsed = parse(command)
    assert parsed.workers == gpus and str(parsed.work_dir).startswith("/shared/")
    assert {"executor.address=auto", "data_root=/shared/IDDA"} <= set(parsed.options)
