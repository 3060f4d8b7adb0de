"""What happens to files: to their bytes, places and values; and payloads that would run.

Hypothesis draws them. A strategy gives a :class:`Damage`: what it does, what a message must name.
"""

import copy
import hashlib
import io
import json
import math
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import toyseg
from faults import Payload
from hypothesis import strategies as st

from fedseg.runner.checkpoint import sum_path

CANARY = "canary"  # a folder that a payload makes where the command runs


@dataclass(frozen=True)
class Damage:
    """One fault.

    Attributes:
        what: a description. apply: does it to a file.
        fields: what a message may name instead of the file.
        valid: the content is unusual, but right: it may be taken as it is.
    """

    what: str
    apply: Callable[[Path], Any]
    fields: tuple[str, ...] = ()
    valid: bool = False


Damages = st.SearchStrategy[Damage]


# ---------------------------------------------------------------- bytes and places


def edited(what: str, change: Callable[[bytes, int], bytes], part: float = 0) -> Damage:
    """Bytes are changed, given the position that is ``part`` of the whole."""

    def apply(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(change(data, int(part * len(data))))

    return Damage(what, apply)


def replaced(data: bytes) -> Damage:
    return edited(f"replaced by {data[:20]!r}", lambda *_: data)


def _cut(part: float) -> Damage:
    return edited(f"cut at {part:.3f}", lambda d, i: d[:i], part)


def _flipped(part: float, bit: int) -> Damage:
    what = f"bit {bit} flipped at {part:.3f}"
    return edited(what, lambda d, i: d[:i] + bytes([d[i] ^ 1 << bit]) + d[i + 1 :], part)


def _filled(part: float, size: int, byte: int) -> Damage:
    what = f"{size} bytes of {byte} at {part:.3f}"
    fill = bytes([byte])
    return edited(what, lambda d, i: d[:i] + fill * len(d[i : i + size]) + d[i + size :], part)


def _without(part: float, size: int) -> Damage:
    return edited(f"{size} bytes gone at {part:.3f}", lambda d, i: d[:i] + d[i + size :], part)


parts = st.integers(0, 999).map(lambda number: number / 1000)
CUTS = st.builds(_cut, parts)
PAGES = [b"", b"\0" * 64, b"<html>404 Not Found</html>", b"PK\x03\x04", b"\x1f\x8b", b"\x89PNG"]
FOREIGN = (st.sampled_from(PAGES) | st.binary(min_size=1, max_size=200)).map(replaced)
BYTES = st.one_of(
    CUTS,
    FOREIGN,
    st.builds(_flipped, parts, st.integers(0, 7)),
    st.builds(_filled, parts, st.integers(16, 4096), st.sampled_from([0, 255])),
    st.builds(_without, parts, st.integers(1, 64)),
)


def _placed(what: str, make: Callable[[Path], Any]) -> Damage:
    return Damage(what, lambda path: (path.unlink(), make(path)))


MISSING = st.just(_placed("missing", lambda path: None))
PLACES = st.sampled_from(
    [
        _placed("a folder", os.mkdir),
        _placed("a link to itself", lambda path: path.symlink_to(path.name)),
        _placed("a link to a device", lambda path: path.symlink_to("/dev/null")),
    ]
)


def lost(path: Path) -> Damages:
    """One of a pair's two files taken away, under another name, or with another suffix."""
    fields = (path.stem, "renamed")
    names = [f"renamed{path.suffix}"]
    names += [path.stem + ending for ending in (".jpg", ".png", ".txt") if ending != path.suffix]
    moves = [
        Damage(f"now {name}", lambda file, name=name: file.rename(file.with_name(name)), fields)
        for name in names
    ]
    return st.sampled_from([Damage("taken away", Path.unlink, fields), *moves])


# ---------------------------------------------------------------- values in nested dicts and lists

ODD: dict[type, list[Any]] = {
    bool: ["False", 2, [], "no"],
    int: ["one", [], {}, math.nan, math.inf, True, 10**400, -1, 0.5],
    float: ["one", [], {}, math.nan, -math.inf, True, 10**400],
    str: [5, [], {}, True, 0.5],
    list: ["text", 5, {}, True],
    dict: ["text", 5, [1], True],
}
ODD_IN_CONFIGS = {  # a large number may be meant
    **ODD,
    int: ["one", [], {}, math.nan, math.inf, True, -1],
    str: ["", "NoSuchThing", 5, [], {}, True],
}


def nodes(tree: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """(path, value) of everything; of a list only the first two."""
    if path:
        yield path, tree
    if isinstance(tree, Mapping | list):
        pairs = tree.items() if isinstance(tree, Mapping) else enumerate(tree[:2])
        for key, value in pairs:
            yield from nodes(value, (*path, key))


def _keys(path: tuple) -> tuple[str, ...]:
    return tuple(key for key in path if isinstance(key, str))


def _changed(tree: Any, path: tuple, change: Callable[[Any, Any], Any]) -> Any:
    """A copy in which ``change(dict or list, key)`` was called at the path."""
    tree = place = copy.deepcopy(tree)
    for key in path[:-1]:
        place = place[key]
    change(place, path[-1])
    return tree


def _dotted(path: tuple) -> str:
    return ".".join(map(str, path))


Changed = tuple[str, tuple[str, ...], Any]  # what was done, names on the way there, the new tree


@st.composite
def odd_value(draw: Any, tree: Any, odd: Mapping[type, list[Any]] = ODD) -> Changed:
    path, old = draw(st.sampled_from([n for n in nodes(tree) if isinstance(n[1], tuple(odd))]))
    new = draw(st.sampled_from(odd[next(kind for kind in odd if isinstance(old, kind))]))
    changed = _changed(tree, path, lambda place, key: place.__setitem__(key, new))
    return f"{_dotted(path)} = {repr(new)[:40]}", _keys(path), changed


@st.composite
def other_number(draw: Any, tree: Any) -> Changed:
    numbers = [
        (path, value)
        for path, value in nodes(tree)
        if type(value) in (int, float) and "seconds" not in path
    ]
    path, old = draw(st.sampled_from(numbers))
    new = draw(st.sampled_from([old + 1, 2 * old + 3]))
    changed = _changed(tree, path, lambda place, key: place.__setitem__(key, new))
    return f"{_dotted(path)} = {new!r} instead of {old!r}", _keys(path), changed


@st.composite
def missing_key(draw: Any, tree: Any, optional: tuple[str, ...] = ()) -> Changed:
    paths = [p for p, _ in nodes(tree) if isinstance(p[-1], str) and p[-1] not in optional]
    path = draw(st.sampled_from(paths))
    changed = _changed(tree, path, lambda place, key: place.__delitem__(key))
    return f"{_dotted(path)} is missing", _keys(path), changed


# ---------------------------------------------------------------- JSON

ELSEWHERE = ["../../../etc/passwd", "/etc/passwd", "a\0b", "", "a" * 5000, "a\\b", "\x1b[31m"]
TEXTS = ["\x1b[31mred\x1b[0m", "<script>alert(1)</script>", "=1+cmd|'x'!A0", "\ud800", "a\nb", "|"]


def _write(text: str) -> Callable[[Path], Any]:
    return lambda path: path.write_text(text)


def json_values(path: Path, optional: tuple[str, ...] = (), vouched: bool = False) -> Damages:
    """A file of JSON, or of lines of it, with a value of a wrong kind, or without a key.

    ``vouched``: there is a checksum, so another number is a damage, too; where a value is of a
    wrong kind, the checksum may be made right.
    """
    lines, text = path.suffix == ".jsonl", path.read_text()
    tree = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)

    def damage(changed: Changed, signed: bool = False) -> Damage:
        what, names, new = changed
        if signed and not lines and toyseg.OWN_DIGEST in new:
            return Damage(f"{what}, signed", lambda path: toyseg.sign_results(path, new), names)
        text = "".join(json.dumps(line) + "\n" for line in new) if lines else json.dumps(new)
        return Damage(what, _write(text), names)

    kinds = odd_value(tree) | odd_value(tree) | missing_key(tree, optional)
    found = st.builds(damage, kinds, st.booleans())
    return found | other_number(tree).map(damage) if vouched else found


@st.composite
def json_entries(draw: Any, path: Path) -> Damage:
    """Lists of clients: an entry is there twice or leads elsewhere, or a name is none."""
    tree = json.loads(path.read_text())
    place, old = draw(st.sampled_from([n for n in nodes(tree) if isinstance(n[1], list) and n[1]]))
    elsewhere = ELSEWHERE if isinstance(old[0], str) else [-1, 10**6, 2**70]
    other = draw(st.sampled_from(elsewhere))
    new = {f"{other!r:.40}": [other, *old[1:]], "twice": old[:1] + old, "empty": []}
    what = draw(st.sampled_from(list(new)))
    changed = _changed(tree, place, lambda holder, key: holder.__setitem__(key, new[what]))
    return Damage(f"{_dotted(place)}: {what}", _write(json.dumps(changed)), _keys(place))


@st.composite
def json_lines(draw: Any, path: Path) -> Damage:
    """Lines of a file of lines are missing, twice, in another order, cut, empty or merged."""
    lines = path.read_text().splitlines(keepends=True)
    at = draw(st.integers(0, len(lines) - 1))
    this, after = lines[at], lines[at + 1 :]
    other = draw(st.sampled_from(["null\n", "[]\n", "{}\n", "5\n", '"x"\n']))
    new = {
        "missing": after,
        "twice": [this, this, *after],
        "cut": [this[: draw(st.integers(1, len(this) - 2))] + "\n", *after],
        "empty": ["\n", *after],
        "merged with the next": [this.strip(), *after],
        "another value": [other, *after],
        "nested too deep": ["[" * 100_000 + "\n", *after],
        "the last": [],
        "after the next": [*after[:1], this, *after[1:]],
    }
    what = draw(st.sampled_from(list(new)))
    return Damage(f"line {at + 1}: {what}", _write("".join(lines[:at] + new[what])))


def json_texts(path: Path, key: str) -> Damages:
    """A text that is no name, and dangerous to show."""
    tree = json.loads(path.read_text())

    def damage(text: str) -> Damage:
        new = {**tree, key: text}
        return Damage(f"{key} = {text!r}", lambda p: toyseg.sign_results(p, new), (key,))

    return st.sampled_from(TEXTS).map(damage)


BOM = "\ufeff"


def json_shapes(path: Path) -> Damages:
    """A JSON file of another shape altogether."""
    text = path.read_text()
    shapes = ["[]", "5", "null", '"text"', "{}", "[" * 100_000, "{", text[:-2], text + text]
    shapes += [BOM + text, text.replace(":", " ")]
    damages = [
        # a byte order mark changes a file's checksum and nothing else
        Damage(f"shape {i}: {shape[:20]!r}", _write(shape), valid=shape == BOM + text)
        for i, shape in enumerate(shapes)
    ]
    return st.sampled_from(damages)


# ---------------------------------------------------------------- configs


def config_values(config: Mapping[str, Any]) -> Damages:
    """A value of a wrong kind, a misspelt key, or a component without a type."""

    def damage(changed: Changed) -> Damage:
        text = "".join(f"{key} = {value!r}\n" for key, value in changed[2].items())
        text = f"inf, nan = float('inf'), float('nan')\n{text}del inf, nan\n"
        return Damage(changed[0], _write(text), changed[1])

    def misspelt(path: tuple) -> Changed:
        new = _changed(config, path, lambda place, key: place.update({key[:-1]: place.pop(key)}))
        return f"{_dotted(path)} is misspelt", _keys(path), new

    paths = [path for path, _ in nodes(config) if isinstance(path[-1], str)]
    types = missing_key(config, tuple({path[-1] for path in paths} - {"type"}))
    # any name of a test set is one
    paths = [p for p in paths if len(p) != 2 or p[0] not in ("val_dataloader", "test_dataloader")]
    keys = st.sampled_from([path for path in paths if len(path[-1]) > 4]).map(misspelt)
    value = odd_value(config, ODD_IN_CONFIGS)
    return st.one_of(value, value, value, keys, types).map(damage)


def config_texts(path: Path) -> Damages:
    """A config that is no Python, or is cut so that it is none, or inherits itself."""
    name, text = path.name, path.read_text()

    def is_none(short: str) -> bool:
        try:
            return not compile(short, "config", "exec")
        except SyntaxError:
            return True

    cuts = parts.map(lambda part: text[: int(part * len(text))]).filter(is_none)
    others = [b"\0" * 9, b"\xff\xfe" + text.encode(), b"{", b"raise ValueError('x')", b"1 / 0"]
    others += [b"import no_such_module", b"_base_ = 'nowhere.py'", b"_base_ = 5"]
    others += [f"_base_ = './{name}'".encode(), b"import sys; sys.exit()"]
    return cuts.map(lambda short: replaced(short.encode())) | st.sampled_from(others).map(replaced)


# ---------------------------------------------------------------- checkpoints

TENSORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "NaN": lambda tensor: tensor.float() * math.nan,
    "infinite": lambda tensor: torch.full_like(tensor, math.inf, dtype=torch.float32),
    "of another shape": lambda tensor: tensor.flatten()[:-1].clone(),
    "complex": lambda tensor: tensor.to(torch.complex64),
    "text": str,
    "None": lambda tensor: None,
}


@st.composite
def odd_tensor(draw: Any, tree: Any) -> Changed:
    """A tensor of a checkpoint is none, or not finite, or of another shape or type."""
    tensors = [p for p, v in nodes(tree) if isinstance(v, torch.Tensor) and v.numel() > 1]
    path, kind = draw(st.sampled_from(tensors)), draw(st.sampled_from(list(TENSORS)))
    new = _changed(tree, path, lambda place, key: place.update({key: TENSORS[kind](place[key])}))
    return f"{_dotted(path)}: {kind}", _keys(path), new


def payloads(path: Path, needed: tuple[str, ...]) -> Damages:
    """A checkpoint with a fault in the parts that a command needs, and without its ``.sha256``.

    With it the sum alone would tell, and nothing behind it would be tried.
    """
    content = torch.load(path, map_location="cpu", weights_only=True)
    tree = {key: content[key] for key in needed if key in content}
    rest = {key: value for key, value in content.items() if key not in tree}

    def damage(changed: Changed) -> Damage:
        what, _, new = changed

        def write(path: Path) -> None:
            torch.save({**rest, **new}, path)
            sum_path(path).unlink(missing_ok=True)

        return Damage(what, write)

    changed = odd_tensor(tree) | odd_tensor(tree) | odd_value(tree) | missing_key(tree)
    return changed.map(damage)


PICKLES = st.sampled_from(
    [
        Damage(
            "a payload by torch", lambda path: torch.save({"state_dict": Payload(CANARY)}, path)
        ),
        replaced(pickle.dumps(Payload(CANARY))),
        replaced(pickle.dumps(Payload(CANARY), 0)),
    ]
)

# ---------------------------------------------------------------- pictures and arrays


def _picture(what: str, *shape: int, value: int = 7, dtype: type = np.uint8) -> Damage:
    data = cv2.imencode(".png", np.full(shape, value, dtype))[1].tobytes()
    return Damage(what, lambda path: path.write_bytes(data))


PICTURES = st.sampled_from(
    [
        _picture("of one pixel", 1, 1, 3),
        _picture("of another size", 8, 90, 3),
        edited("a huge header", lambda d, _: d[:16] + b"\x7f\xff\xff\xff" * 2 + d[24:]),
    ]
)
MAPS = st.sampled_from(
    [_picture("of 16 bits", 36, 64, value=999, dtype=np.uint16), _picture("of colors", 36, 64, 3)]
)


def _array(what: str, change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    """In a .npy file, or of the images in a .npz file."""

    def apply(path: Path) -> None:
        if path.suffix == ".npy":
            return np.save(path, change(np.load(path)))
        content = dict(np.load(path))
        return np.savez(path, **{**content, "images": change(content["images"])})

    return Damage(what, apply)


def _bomb(path: Path) -> None:
    """A few bytes that claim to be hundreds of terabytes."""
    file = io.BytesIO()
    shape = {"descr": "|u1", "fortran_order": False, "shape": (2**40, 28, 28, 1)}
    np.lib.format.write_array_header_1_0(file, shape)
    if path.suffix == ".npy":
        path.write_bytes(file.getvalue())
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("images", "labels", "classes"):
                archive.writestr(f"{name}.npy", file.getvalue())


SWAPPED = st.just(_array("two swapped", lambda array: array[[-1, *range(1, len(array) - 1), 0]]))
ARRAYS = st.sampled_from(
    [
        _array("of floats", lambda array: array.astype(np.float32) / 3),
        _array("one less", lambda array: array[:-1]),
        _array("empty", lambda array: array[:0]),
        _array("of objects", lambda array: np.array([Payload(CANARY)])),
        Damage("a bomb", _bomb),
    ]
)

# ---------------------------------------------------------------- class names


def _lines(what: str, change: Callable[[list[str]], list[str]]) -> Damage:
    return Damage(
        what, lambda path: path.write_text("\n".join(change(path.read_text().splitlines())))
    )


CLASSES = st.sampled_from(
    [
        _lines("a class twice", lambda lines: [*lines, lines[0]]),
        _lines("a class less", lambda lines: lines[:-1]),
        _lines("no class", lambda lines: []),
        _lines("two numbers of a color", lambda lines: [*lines[:-1], "tree,1,2"]),
        _lines("a color of 256", lambda lines: [*lines[:-1], "tree,0,0,256"]),
        _lines("a color of letters", lambda lines: [*lines[:-1], "tree,red,0,0"]),
        _lines("no name", lambda lines: [*lines[:-1], ",1,2,3"]),
        _lines("300 classes", lambda lines: [*lines, *(f"class {i}" for i in range(300))]),
        _lines("a control character", lambda lines: [*lines[:-1], "tr\0ee"]),
        Damage("UTF-16", lambda path: path.write_text(path.read_text(), encoding="utf-16")),
        Damage(
            "Latin-1", lambda path: path.write_bytes("Stra\xdfe\nHimmel\nBaum\n".encode("latin-1"))
        ),
    ]
)

# ---------------------------------------------------------------- config copies


def _stranger(what: str, values: Mapping[str, Any], **beside: str) -> Damage:
    """A run with a config of a stranger's, signed again."""

    def apply(path: Path) -> None:
        for name, content in beside.items():
            path.with_name(name.replace("_", ".")).write_text(content)
        results = path.with_name("results.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
        digest = {"config_json_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        results.write_text(json.dumps({**json.loads(results.read_text()), **digest}))

    return Damage(f"a stranger's config with {what}", apply, valid=True)


CODE = f"import os; os.makedirs({CANARY!r}, exist_ok=True)\n"
CALL = {"type": "os.makedirs", "name": CANARY, "exist_ok": True}
YAML = f"x: !!python/object/apply:os.mkdir [{CANARY}]\n"
BESIDE = {"custom_imports": {"imports": ["beside"], "allow_failed_imports": False}}
STRANGERS = st.sampled_from(
    [
        _stranger("code", {"_base_": "beside.py"}, beside_py=CODE),
        _stranger("a module", BESIDE, beside_py=CODE),
        _stranger("a type by its path", {"model": CALL, "val_evaluator": CALL}),
        _stranger("a base", {"_base_": "base.yaml"}, base_yaml=YAML),
    ]
)
