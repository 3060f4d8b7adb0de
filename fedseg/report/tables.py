"""Tables as text: data frames of texts for the terminal and as Markdown."""

import pandas as pd

from fedseg.runs.tables import MISSING, markdown_text

NUMBER = rf"[-+]?\d|{MISSING}|$|not reached"  # how the texts of a column of numbers begin


def table_text(title: str, table: pd.DataFrame) -> str:
    """Write a title and a table for the terminal; numbers must be texts already."""
    text = table.to_markdown(tablefmt="simple", disable_numparse=True, colalign=_alignment(table))
    return f"\n{title}\n\n{text}"


def markdown_table(table: pd.DataFrame) -> str:
    """Write a table as Markdown that shows texts as they are: no markup gets through."""
    plain = table.map(markdown_text)
    plain.index = [markdown_text(name) for name in table.index]
    plain.columns = [markdown_text(name) for name in table.columns]
    return plain.to_markdown(disable_numparse=True, colalign=_alignment(table))


def _alignment(table: pd.DataFrame) -> list[str]:
    """Align columns of numbers on the right, others and the names of the rows on the left."""
    columns = ["left"]
    for number in range(table.shape[1]):
        texts = table.iloc[:, number]
        is_number = texts.str.match(r"[-+]?\d").any() and texts.str.match(NUMBER).all()
        columns.append("right" if is_number else "left")
    return columns
