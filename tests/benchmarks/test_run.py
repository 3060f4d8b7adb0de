"""tools/benchmarks/run.py as a command."""

import json

import command_line


def run(*arguments):
    return command_line.run("benchmarks/run.py", *arguments)


def test_classification(tmp_path):
    out = tmp_path / "measured.json"
    options = ("--clients", 2, "--repeats", 1, "--threads", 1, "--samples", 6, "--test-images", 10)
    nowhere = ("--cfg-options", f"data_root={tmp_path / 'nowhere'}")
    result = run("classification", *options, "--out", out, *nowhere)
    assert result.returncode == 0, result.stderr
    assert "classification, 1 threads" in result.stdout
    assert "engine / hand-written: float32" in result.stdout
    measured = json.loads(out.read_text())
    assert measured["clients per round"] == 2 and measured["device"] in result.stdout
    assert set(measured["engine / hand-written"]) == {"float32"}


def test_segmentation_of_too_few_clients(small_config):
    result = run("segmentation", "--config", small_config, "--repeats", 1, "--local-steps", 1)
    assert result.returncode == 2  # memory needs 50 clients
    assert f"{small_config}: client_sampler.clients_per_round" in result.stderr


def test_algorithms(tmp_path):
    out = tmp_path / "measured.json"
    options = ("--clients", 2, "--repeats", 1, "--threads", 1, "--samples", 6, "--markdown")
    nowhere = ("--cfg-options", f"data_root={tmp_path / 'nowhere'}")
    result = run("algorithms", *options, "--only", "FedCM", "--out", out, *nowhere)
    assert result.returncode == 0, result.stderr
    title, _, *table = result.stdout.splitlines()
    assert title == "algorithms, 1 threads"
    assert [line.split(" | ")[0] for line in table[2:]] == ["| FedAvg", "| FedCM"]
    assert json.loads(out.read_text())["methods"]["FedCM"]["traffic / FedAvg"] == 1.5


def test_wrong_arguments():
    for arguments, option in (
        (("classification", "--repeats", 0), "--repeats"),
        (("segmentation", "--threads", "two"), "--threads"),
        (("overhead", "--config", "configs/demo.py"), "--config"),
        ((), "WHAT"),
    ):
        result = run(*arguments)
        assert result.returncode == 2
        assert option in result.stderr and "Traceback" not in result.stderr
