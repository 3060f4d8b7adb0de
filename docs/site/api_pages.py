"""MkDocs hook: a reference page for every package, made from its docstrings.

Modules are found in the folder, so that a new one cannot be forgotten. Modules and names that begin
with an underscore are private.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PACKAGE = Path(__file__).parents[2] / "fedseg"
# In the order in which a reader meets them.
PACKAGES = {
    "algorithms": "Algorithms and local losses: a client rule, a server rule, a term of the loss.",
    "optim": "Local optimizers and the server's optimizers.",
    "hooks": "Averaging, BatchNorm policies, checkpoints, progress, trackers.",
    "partition": "Who holds which samples.",
    "datasets": "Data sets and transforms.",
    "models": "Networks, losses and BatchNorm helpers.",
    "metrics": "Exact counts by domain.",
    "engine": "A round: runner, server, client, loaders, state, checkpoints, results.",
    "leaderboard": "Results beside published numbers.",
    "analysis": "Pictures, summaries, benchmarks of speed.",
}
# A cross-reference of Sphinx as Markdown renders it, such as `:class:<code>~a.b.Name</code>`.
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):<code>~?([^<&]*)(?:&lt;[^<]*&gt;)?</code>")


def modules(folder: Path) -> list[str]:
    """Public modules of a package, the package's own docstring first."""
    package = f"fedseg.{folder.name}"
    names = sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))
    return [f"{package}.{name}" for name in names]


def page(name: str) -> str:
    """A package's page in Markdown."""
    blocks = [f"# fedseg.{name}", PACKAGES[name]]
    blocks += [f"::: {module}" for module in modules(PACKAGE / name)]
    return "\n\n".join(blocks) + "\n"


def index() -> str:
    """The first page in Markdown: the packages, and the modules beside them."""
    rows = [f"| [fedseg.{name}]({name}.md) | {words} |" for name, words in PACKAGES.items()]
    table = ["| package | what |", "|---|---|", *rows]
    alone = ["::: fedseg.registry", "::: fedseg.errors"]
    return "\n\n".join(["# Reference", "\n".join(table), *alone]) + "\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the packages' pages behind the reference's first page."""
    folders = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").is_file()}
    if folders != set(PACKAGES):
        raise SystemExit(f"{__file__}: PACKAGES does not name the packages of {PACKAGE}")
    pages = ["api/index.md", *({name: f"api/{name}.md"} for name in PACKAGES)]
    project = next(entry["Project"] for entry in config.nav if "Project" in entry)
    project.append({"Reference": pages})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, text in (("index", index()), *((name, page(name)) for name in PACKAGES)):
        files.append(File.generated(config, f"api/{name}.md", content=text))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show what a docstring's cross-references name."""
    return ROLE.sub(lambda match: f"<code>{shown(match[1], match[0])}</code>", html)


def shown(text: str, role: str) -> str:
    """The text of a cross-reference; ``~`` shows the last part of a dotted name."""
    text = text.strip()
    return text.rpartition(".")[2] if "<code>~" in role else text
