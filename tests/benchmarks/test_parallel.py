"""Rounds of clients that train nothing, ours and others'."""

from benchmarks.parallel import overhead, peer_round


def test_rounds_of_each_number_of_clients_in_process(tmp_path):
    measured = overhead(tmp_path, 1000, [2, 3], [], 2)
    for clients in (2, 3):
        assert measured[f"{clients} clients, in process"]["seconds of a round"] > 0
        assert measured[f"{clients} clients, in process"]["main process, MiB"] > 0
        assert measured[f"{clients} clients, passes over memory alone, seconds of a round"] > 0


def test_peers_are_run_by_their_own_interpreter_where_there_are_any(tmp_path):
    python = tmp_path / "python"
    python.write_text(
        """#!/bin/sh
case "$2 $3 $4 $5 $6" in
"flower 1000 3 2 4") echo "starting"; echo "[0.5, 0.25, 4.0]" ;;
*) echo "ModuleNotFoundError: No module named '$2'" >&2; exit 1 ;;
esac
"""
    )
    python.chmod(0o755)
    assert peer_round(str(python), "flower", 1000, 3, 2, 4) == 0.5
    assert "No module named 'pfl'" in peer_round(str(python), "pfl", 1000, 3, 1, 4)
