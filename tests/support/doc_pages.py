"""The pages of the documentation and the code blocks in them."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCED = re.compile(r"^(?:`([\w.]+)`:\n\n)?( *)```(\w*)\n(.*?)^\2```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: where it stands. language: behind the fence, may be empty.
        name: of the file whose content it is, from a line such as ```` `own.py`: ```` above it.
        text: without the fence and its indentation.
    """

    page: Path
    language: str
    name: str
    text: str

    @property
    def is_config(self) -> bool:
        return self.text.lstrip().startswith("setting = ")


def blocks(page: Path) -> list[Block]:
    found = FENCED.findall(page.read_text(encoding="utf-8"))
    return [Block(page, lang, name, textwrap.dedent(text)) for name, _, lang, text in found]


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks(page)]


def commands(block: Block) -> list[str]:
    """The commands of a block of shell, or of no language: continued lines joined, no comments."""
    if block.language not in ("", "bash", "console"):
        return []
    joined = re.sub(r"\\\n\s*", " ", block.text)
    lines = (re.sub(r"\s+#.*", "", line).strip() for line in joined.splitlines())
    return [line.removeprefix("$ ") for line in lines if line and not line.startswith("#")]
