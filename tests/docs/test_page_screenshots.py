"""Screenshots need a page and a browser; tests/leaderboard/test_page_browser.py takes them."""

import page_screenshots
import pytest

from fedseg.errors import ConfigError, DataError


def test_screenshots_need_a_page_and_a_browser(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"index\.html"):
        page_screenshots.take_screenshots(tmp_path, tmp_path)
    (tmp_path / "index.html").touch()
    monkeypatch.setattr(page_screenshots, "find_browser", lambda: None)
    with pytest.raises(ConfigError, match="FEDSEG_BROWSER"):
        page_screenshots.take_screenshots(tmp_path, tmp_path)


def test_a_browser_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(page_screenshots.VARIABLE, raising=False)
    assert page_screenshots.find_browser() is None
    for name in ("chromium", "own"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert page_screenshots.find_browser() == str(tmp_path / "chromium")
    monkeypatch.setenv(page_screenshots.VARIABLE, str(tmp_path / "own"))
    assert page_screenshots.find_browser() == str(tmp_path / "own")
