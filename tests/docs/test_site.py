"""The documentation as a site: it builds without a warning, and asks the network for nothing."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import ROOT

import fedseg

FOREIGN = re.compile(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s\">]+")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="make docs-tools installs MkDocs")
    pytest.importorskip("material", reason="make docs-tools installs the theme")
    pytest.importorskip("mkdocstrings", reason="make docs-tools installs mkdocstrings")
    pytest.importorskip("latex2mathml", reason="make docs-tools installs latex2mathml")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    command += ["--config-file", str(ROOT / "docs" / "site" / "mkdocs.yml")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return folder


def test_pages_are_built(site):
    docs = ROOT / "docs"
    sources = {path.relative_to(docs).with_suffix(".html") for path in docs.rglob("*.md")}
    assert sources <= {path.relative_to(site) for path in site.rglob("*.html")}


def test_formulas_are_drawn_and_the_notebook_shows_its_outputs(site):
    page = (site / "algorithms.html").read_text(encoding="utf-8")
    assert page.count("<math") > 100
    assert "arithmatex" not in "".join(p.read_text(encoding="utf-8") for p in site.glob("*.html"))
    assert "data:image/png" in (site / "first_run.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(n for n in fedseg.__all__ if n.islower()))
def test_every_parameter_of_the_python_api_is_documented(name):
    function = getattr(fedseg, name)
    arguments = (inspect.getdoc(function) or "").partition("Args:\n")[2]
    described = set(re.findall(r"^    (\w+): ", arguments, re.MULTILINE))
    assert described == set(inspect.signature(function).parameters)


def test_reference_has_public_names_and_no_private_ones(site):
    text = (site / "api" / "algorithms.html").read_text(encoding="utf-8")
    assert 'id="fedseg.algorithms.scaffold.SCAFFOLD.step"' in text
    interface = (site / "api" / "index.html").read_text(encoding="utf-8")
    assert 'id="fedseg.api.Run.metrics"' in interface
    pages = "".join(p.read_text(encoding="utf-8") for p in (site / "api").glob("*.html"))
    assert not re.search(r'id="fedseg\.[\w.]*\._\w', pages)
    assert not re.search(r":(?:class|func|mod|meth|data):<code>", pages)


def test_nothing_comes_from_elsewhere(site):
    for page in site.rglob("*.html"):
        assert not FOREIGN.findall(page.read_text(encoding="utf-8")), page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", style.read_text(encoding="utf-8"))


def test_sources_of_the_site_are_not_served(site):
    served = {path.name for path in (site / "site").iterdir()}
    assert served == {"site.css"}
