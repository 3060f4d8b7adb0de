"""MkDocs hook: a reference page for every package, made from its docstrings.

Packages and modules are found in the folder, so that a new one cannot be forgotten. Modules and
names that begin with an underscore are private.
"""

import ast
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PACKAGE = Path(__file__).parents[2] / "fedseg"
# A cross-reference of Sphinx as Markdown renders it, such as `:class:<code>~a.b.Name</code>`.
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):<code>~?([^<&]*)(?:&lt;[^<]*&gt;)?</code>")


def packages() -> dict[str, str]:
    """The packages by name, with the first line of their docstrings."""
    files = sorted(PACKAGE.glob("*/__init__.py"))
    texts = {file.parent.name: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    return {name: ast.get_docstring(tree).split("\n")[0] for name, tree in texts.items()}


def modules(folder: Path) -> list[str]:
    """Public modules of a package, the package's own docstring first."""
    package = f"fedseg.{folder.name}"
    names = sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))
    return [f"{package}.{name}" for name in names]


def page(name: str) -> str:
    """A package's page in Markdown."""
    blocks = [f"# fedseg.{name}", packages()[name]]
    blocks += [f"::: {module}" for module in modules(PACKAGE / name)]
    return "\n\n".join(blocks) + "\n"


def index() -> str:
    """The first page in Markdown: the packages, and single modules."""
    rows = [f"| [fedseg.{name}]({name}.md) | {words} |" for name, words in packages().items()]
    table = ["| package | what |", "|---|---|", *rows]
    alone = [f"::: fedseg.{name}" for name in ("api", "registry", "errors", "checks")]
    return "\n\n".join(["# Reference", "\n".join(table), *alone]) + "\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the packages' pages behind the reference's first page."""
    pages = ["api/index.md", *({name: f"api/{name}.md"} for name in packages())]
    project = next(entry["Project"] for entry in config.nav if "Project" in entry)
    project.append({"Reference": pages})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, text in (("index", index()), *((name, page(name)) for name in packages())):
        files.append(File.generated(config, f"api/{name}.md", content=text))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show what a docstring's cross-references name."""
    return ROLE.sub(lambda match: f"<code>{shown(match[1], match[0])}</code>", html)


def shown(text: str, role: str) -> str:
    """The text of a cross-reference; ``~`` shows the last part of a dotted name."""
    text = text.strip()
    return text.rpartition(".")[2] if "<code>~" in role else text
