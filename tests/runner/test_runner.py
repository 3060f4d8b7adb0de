"""What a run says of itself before it trains."""

import pytest
import toyseg


@pytest.mark.parametrize("threads", [2, 8])
def test_a_run_with_more_threads_than_cores_says_so(tmp_path, monkeypatch, threads):
    monkeypatch.setattr("fedseg.runner.runner.count_cores", lambda: 2)
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    config = toyseg.settings(tmp_path)
    toyseg.runner(config)
    warning = "8 threads slow each other down on 2 cores: set OMP_NUM_THREADS=2"
    assert (warning in toyseg.logs(config)) == (threads == 8)
