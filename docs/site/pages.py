"""MkDocs hook: reference pages from docstrings, the notebook as a page, formulas as MathML."""

import ast
import json
import re
from html import unescape
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments.lexers import BashLexer
from pygments.token import Name

ROOT = Path(__file__).parents[2]
# What configs and modules of users name; the other packages are internal.
PUBLIC = ("algorithms", "optim", "core", "datasets", "partition", "models", "evaluation", "hooks")
PUBLIC += ("updates", "data_prep", "inference", "runs")
# A cross-reference of Sphinx as Markdown renders it, such as `:class:<code>~a.b.Name</code>`.
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):<code>~?([^<&]*)(?:&lt;[^<]*&gt;)?</code>")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)
# Commands and options of shell blocks, which Pygments leaves as plain text.
BashLexer.tokens["basic"][:0] = [
    (r"(?<![\w./-])(?:fedseg|python|pip|make|git|cp|rm)(?=\s)", Name.Function),
    (r"(?<=\s)--?[a-zA-Z][\w-]*", Name.Attribute),
]


def reference(name: str) -> str:
    """A package's page in Markdown; the search ranks it below the guides."""
    folder = ROOT / "fedseg" / name
    modules = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    summary = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    blocks = ["---\nsearch:\n  boost: 0.3\n---", f"# fedseg.{name}", summary]
    return "\n\n".join([*blocks, *(f"::: fedseg.{name}.{module}" for module in modules)]) + "\n"


def interface() -> str:
    """The page of the Python API in Markdown."""
    blocks = ["# Python API", "::: fedseg.api", "::: fedseg.runner.experiment.load_config"]
    return "\n\n".join([*blocks, "::: fedseg.registry", "::: fedseg.errors"]) + "\n"


def notebook() -> str:
    """``docs/first_run.ipynb`` with its stored outputs in Markdown."""
    cells = json.loads((ROOT / "docs" / "first_run.ipynb").read_text(encoding="utf-8"))["cells"]
    blocks = []
    for cell in cells:
        source = "".join(cell["source"])
        blocks.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = {"text/plain": output.get("text", ""), **output.get("data", {})}
            if "image/png" in data:
                png = "".join(data["image/png"]).replace("\n", "")
                blocks.append(f"![output](data:image/png;base64,{png})")
            else:
                blocks.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join([*blocks, "[The notebook as a file](first_run.ipynb)"]) + "\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the packages' pages behind the other pages of the reference."""
    pages = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    pages += [{f"fedseg.{name}": f"api/{name}.md"} for name in PUBLIC]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    made = {"api/index.md": interface(), "first_run.md": notebook()}
    made |= {f"api/{name}.md": reference(name) for name in PUBLIC}
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace formulas, and show what a docstring's cross-references name."""
    html = FORMULA.sub(lambda match: mathml(match[2], block=match[1] == "div"), html)
    return ROLE.sub(lambda match: f"<code>{shown(match[1], match[0])}</code>", html)


def mathml(tex: str, block: bool) -> str:
    """A formula that browsers draw by themselves."""
    return convert(unescape(tex).strip(), display="block" if block else "inline")


def shown(text: str, role: str) -> str:
    """The text of a cross-reference; ``~`` shows the last part of a dotted name."""
    text = text.strip()
    return text.rpartition(".")[2] if "<code>~" in role else text
