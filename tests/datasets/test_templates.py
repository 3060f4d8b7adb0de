"""Templates of paths: what they match, and what they find on disk."""

from pathlib import Path

import pytest

from fedseg.datasets.templates import fields_of, fill, find_files
from fedseg.errors import ConfigError


@pytest.mark.parametrize(
    ("template", "path", "fields"),
    [
        ("{split}/{name}.png", "train/a.b.png", {"split": "train", "name": "a.b"}),
        ("{split}/{name}.png", "train/x/a.png", None),
        ("{split}/{name}.png", "train/.a.png", None),
        ("{split}/{name}.png", ".train/a.png", None),
        ("{split}/{name}.png", "train/a.PNG", None),
        ("{domain}_{name}.jpg", "a_b_c.jpg", {"domain": "a", "name": "b_c"}),
        ("{domain}/{name}_{domain}.png", "a/1_a.png", {"domain": "a", "name": "1"}),
        ("{domain}/{name}_{domain}.png", "a/1_b.png", None),
        ("x+(1)/{name}.{ending}", "x+(1)/a.JPEG", {"name": "a", "ending": "JPEG"}),
        ("{name}.{ending}", "a.tif", None),
    ],
)
def test_fields(template, path, fields):
    assert fields_of(template, path) == fields
    if fields is not None:
        assert fill(template, fields) == path


@pytest.mark.parametrize("template", ["*/{name}.png", "{name.png", "{Name}.png", "a?.png"])
def test_what_is_no_template_is_refused(template):
    with pytest.raises(ConfigError, match="must be a path with fields such as"):
        fields_of(template, "a.png")


def test_files_are_found_behind_links(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("b_leftImg8bit.png", "a_leftImg8bit.png", ".c_leftImg8bit.png", "a.txt"):
        (tmp_path / "elsewhere" / name).touch()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "[1]").symlink_to(tmp_path / "elsewhere")
    assert find_files(tmp_path / "root", "{city}/{name}_leftImg8bit.png") == {
        "[1]/a_leftImg8bit.png": {"city": "[1]", "name": "a"},
        "[1]/b_leftImg8bit.png": {"city": "[1]", "name": "b"},
    }
    assert list(find_files(tmp_path / "root", "[1]/{name}_leftImg8bit.png")) == [
        "[1]/a_leftImg8bit.png",
        "[1]/b_leftImg8bit.png",
    ]
