"""What happens to files: bytes, places, JSON, configs, checkpoints, pictures; and payloads.

Hypothesis draws them. A strategy gives a :class:`Damage`: what it does, what a message must name.
"""

import copy
import io
import json
import math
import os
import pickle
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from hypothesis import strategies as st

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


class Payload:
    """Makes a folder when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (CANARY,)


# ---------------------------------------------------------------- bytes and places


def _edit(change: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def _at(data: bytes, part: float) -> int:
    return min(int(part * len(data)), max(len(data) - 1, 0))


def cut(part: float) -> Damage:
    """The end is missing."""
    return Damage(f"cut at {part:.3f}", _edit(lambda data: data[: _at(data, part)]))


def flip(part: float, bit: int) -> Damage:
    """One bit is another."""

    def change(data: bytes) -> bytes:
        changed = bytearray(data)
        if changed:
            changed[_at(data, part)] ^= 1 << bit
        return bytes(changed)

    return Damage(f"bit {bit} flipped at {part:.3f}", _edit(change))


def filled(part: float, size: int, byte: int) -> Damage:
    """A range of bytes is overwritten, as by a disk that lost a block."""

    def change(data: bytes) -> bytes:
        at = _at(data, part)
        return data[:at] + bytes([byte]) * len(data[at : at + size]) + data[at + size :]

    return Damage(f"{size} bytes of {byte} at {part:.3f}", _edit(change))


def removed(part: float, size: int) -> Damage:
    """A range of bytes is missing."""
    change = _edit(lambda data: data[: _at(data, part)] + data[_at(data, part) + size :])
    return Damage(f"{size} bytes removed at {part:.3f}", change)


def replaced(data: bytes) -> Damage:
    """Another content."""
    return Damage(f"replaced by {data[:20]!r}", lambda path: path.write_bytes(data))


parts = st.floats(0, 0.999)
CUTS = st.builds(cut, parts)
FOREIGN = st.one_of(
    st.sampled_from([b"", b"\0" * 64, b"<html>404 Not Found</html>", b"PK\x03\x04", b"\x1f\x8b"]),
    st.binary(min_size=1, max_size=200),
).map(replaced)
BYTES = st.one_of(
    CUTS,
    FOREIGN,
    st.builds(flip, parts, st.integers(0, 7)),
    st.builds(filled, parts, st.integers(16, 4096), st.sampled_from([0, 255])),
    st.builds(removed, parts, st.integers(1, 64)),
)


def _place(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        path.unlink()
        make(path)

    return apply


PLACES = st.sampled_from(
    [
        Damage("missing", _place(lambda path: None)),
        Damage("a folder", _place(os.mkdir)),
        Damage("a named pipe", _place(os.mkfifo)),
        Damage("a link to itself", _place(lambda path: path.symlink_to(path.name))),
        Damage("a link to a device", _place(lambda path: path.symlink_to("/dev/null"))),
    ]
)


# ---------------------------------------------------------------- values in trees

HUGE = 10**400
ODD: dict[type, list[Any]] = {
    bool: ["False", 2, [], "no"],
    int: ["one", [], {}, math.nan, math.inf, True, HUGE, -1, 0.5],
    float: ["one", [], {}, math.nan, -math.inf, True, HUGE],
    str: [5, [], {}, True, 0.5],
    list: ["text", 5, {}, True],
    dict: ["text", 5, [1], True],
}
TEXTS = ["\x1b[31mred\x1b[0m", "<script>alert(1)</script>", "=1+cmd|'x'!A0", "\ud800", "a\nb", "|"]


def nodes(tree: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """(path, value) of everything in nested dicts and lists; of a long list only the first."""
    if path:
        yield path, tree
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from nodes(value, (*path, key))
    elif isinstance(tree, list | tuple):
        for index, value in enumerate(tree[:2]):
            yield from nodes(value, (*path, index))


def _put(tree: Any, path: tuple, change: Callable[[Any, Any], None]) -> Any:
    tree = copy.deepcopy(tree)
    place = tree
    for key in path[:-1]:
        place = place[key]
    change(place, path[-1])
    return tree


def _deep(tree: Any) -> Any:
    for _ in range(3000):
        tree = [tree]
    return tree


@st.composite
def changed_tree(
    draw: Any, tree: Any, odd: Mapping[type, list[Any]] = ODD
) -> tuple[str, tuple[str, ...], Any]:
    """(what was done, the names on its way, the tree with one value of a wrong kind)."""
    choices = [(p, v) for p, v in nodes(tree) if isinstance(v, tuple(odd))]
    path, value = draw(st.sampled_from(choices))
    new = draw(st.sampled_from(odd[next(kind for kind in odd if isinstance(value, kind))]))
    names = tuple(str(key) for key in path if isinstance(key, str))
    shown = repr(new)[:40]
    changed = _put(tree, path, lambda place, key: place.__setitem__(key, new))
    return f"{'.'.join(map(str, path))} = {shown}", names, changed


def _write_json(tree: Any, lines: bool) -> Callable[[Path], Any]:
    text = "".join(json.dumps(t) + "\n" for t in tree) if lines else json.dumps(tree)
    return lambda path: path.write_text(text)


@st.composite
def json_values(draw: Any, path: Path, optional: tuple[str, ...] = ()) -> Damage:
    """A JSON (or JSON lines) file with a value of the wrong kind, or without a key.

    Args:
        optional: keys that may be missing.
    """
    lines = path.suffix == ".jsonl"
    text = path.read_text()
    tree = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
    if draw(st.integers(0, 3)):
        what, names, changed = draw(changed_tree(tree))
    else:
        keys = [p for p, _ in nodes(tree) if isinstance(p[-1], str) and p[-1] not in optional]
        gone = draw(st.sampled_from(keys))
        what = f"{'.'.join(map(str, gone))} is missing"
        names = tuple(key for key in gone if isinstance(key, str))
        changed = _put(tree, gone, lambda place, key: place.__delitem__(key))
    return Damage(what, _write_json(changed, lines), names)


@st.composite
def json_lines(draw: Any, path: Path) -> Damage:
    """Lines of a file of lines that are missing, twice, in another order, cut, empty or merged."""
    lines = path.read_text().splitlines(keepends=True)
    at = draw(st.integers(0, len(lines) - 2))
    whole = lines[at]
    new: dict[str, list[str]] = {
        "missing": [],
        "twice": [whole, whole],
        "cut": [whole[: draw(st.integers(1, len(whole) - 2))] + "\n"],
        "empty": ["\n"],
        "merged with the next": [whole.strip()],
        "nonsense": [draw(st.sampled_from(["null\n", "[]\n", "{}\n", "5\n", "NaN\n", '"x"\n']))],
        "nested too deep": ["[" * 100_000 + "\n"],
    }
    what = draw(st.sampled_from([*new, "the last ones are missing", "in another order"]))
    changed = [*lines[:at], *new.get(what, []), *lines[at + 1 :]]
    if what == "the last ones are missing":
        changed = lines[:at]
    elif what == "in another order":
        changed = [*lines[:at], lines[at + 1], whole, *lines[at + 2 :]]
    return Damage(f"line {at + 1}: {what}", lambda file: file.write_text("".join(changed)))


def json_texts(path: Path, key: str) -> Damages:
    """A text that is allowed, and dangerous to show."""

    def make(text: str) -> Damage:
        tree = {**json.loads(path.read_text()), key: text}
        return Damage(f"{key} = {text!r}", _write_json(tree, False), (key,), valid=True)

    return st.sampled_from(TEXTS).map(make)


def json_shapes(path: Path) -> Damages:
    """A JSON file of another shape altogether."""
    text = path.read_text()
    key = json.dumps(next(iter(json.loads(text))))
    shapes = ["[]", "5", "null", '"text"', "{}", "[" * 100_000, "{", text[:-2], text + text]
    shapes += [text.replace(key, f"{key}: 1, {key}", 1), "\ufeff" + text, text.replace(":", " ")]
    return st.sampled_from(shapes).map(
        lambda new: Damage(f"JSON {new[:30]!r}...", lambda path: path.write_text(new))
    )


# ---------------------------------------------------------------- configs

CONFIG_ODD = {
    bool: ["False", 2, [], 0.5],
    int: ["one", [], {}, math.nan, math.inf, True, -1],
    float: ["one", [], {}, math.nan, math.inf, True],
    str: ["", "NoSuchThing", 5, [], {}, True],
    list: ["text", 5, True, {}],
    dict: ["text", 5, True, [1]],
}


def _config_text(config: Mapping[str, Any]) -> Callable[[Path], Any]:
    text = "inf, nan = float('inf'), float('nan')\n"
    text += "".join(f"{key} = {value!r}\n" for key, value in config.items())
    return lambda path: path.write_text(text + "del inf, nan\n")


@st.composite
def config_values(draw: Any, config: Mapping[str, Any]) -> Damage:
    """A config with a value of the wrong kind, a misspelt key, or a component without a type."""
    action = draw(st.sampled_from(["value"] * 6 + ["misspelt", "no type"]))
    if action == "value":
        what, names, changed = draw(changed_tree(config, CONFIG_ODD))
        return Damage(what, _config_text(changed), names)
    wanted = {"misspelt": lambda key: len(key) > 3 and key != "type", "no type": "type".__eq__}
    keys = [p for p, _ in nodes(config) if isinstance(p[-1], str) and wanted[action](p[-1])]
    path = draw(st.sampled_from(keys))
    names = tuple(key for key in path if isinstance(key, str))

    def change(place: Any, key: str) -> None:
        value = place.pop(key)
        if action == "misspelt":
            place[key[:-1]] = value

    what = f"{'.'.join(map(str, path))}: {action}"
    return Damage(what, _config_text(_put(config, path, change)), names)


def config_texts(text: str) -> Damages:
    """A config that is no Python, or is cut so that it is none."""

    def make(part: float) -> Damage | None:
        short = text[: int(part * len(text))]
        try:
            compile(short, "config", "exec")
        except SyntaxError:
            return Damage(f"cut at {part:.3f}", lambda path: path.write_text(short))
        return None

    others = [b"\0" * 9, b"\xff\xfe" + text.encode(), b"{", b"raise ValueError('x')", b"1 / 0"]
    others += [
        b"import no_such_module",
        b"_base_ = 'nowhere.py'",
        b"_base_ = 5",
        b"_base_ = 'c.py'",
    ]
    return st.one_of(parts.map(make).filter(bool), st.sampled_from(others).map(replaced))


# ---------------------------------------------------------------- checkpoints

TENSORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "NaN": lambda tensor: tensor.float() * math.nan,
    "infinite": lambda tensor: torch.full_like(tensor, math.inf, dtype=torch.float32),
    "of another shape": lambda tensor: tensor.flatten()[:-1].clone(),
    "complex": lambda tensor: tensor.to(torch.complex64),
    "no tensor": lambda tensor: "text",
    "None": lambda tensor: None,
}


@st.composite
def payloads(draw: Any, path: Path, top: tuple[str, ...]) -> Damage:
    """A checkpoint, under a right checksum, with wrong weights, a wrong value, or without a key.

    Args:
        top: the parts of it that the command needs.
    """
    content = torch.load(path, map_location="cpu", weights_only=True)
    tree = {key: content[key] for key in top if key in content}
    action = draw(st.sampled_from(["tensor", "tensor", "value", "missing"]))
    if action == "tensor":
        tensors = [p for p, v in nodes(tree) if isinstance(v, torch.Tensor) and v.numel() > 1]
        place, kind = draw(st.sampled_from(tensors)), draw(st.sampled_from(list(TENSORS)))
        what = f"{place} {kind}"
        changed = _put(tree, place, lambda at, key: at.__setitem__(key, TENSORS[kind](at[key])))
    elif action == "value":
        what, _, changed = draw(changed_tree(tree))
    else:
        place = draw(st.sampled_from([p for p, _ in nodes(tree) if isinstance(p[-1], str)]))
        what = f"{place} is missing"
        changed = _put(tree, place, lambda at, key: at.__delitem__(key))
    new = {**{key: value for key, value in content.items() if key not in tree}, **changed}
    return Damage(what, lambda file: _save(file, new))


def _save(path: Path, content: Any) -> None:
    import hashlib

    torch.save(content, path)
    digest = path.with_name(path.name + ".sha256")
    digest.write_text(hashlib.sha256(path.read_bytes()).hexdigest() + "\n")


PICKLES = st.sampled_from(
    [
        Damage("a payload, by torch", lambda path: _save(path, {"state_dict": Payload()})),
        Damage("a payload, pickled", lambda path: path.write_bytes(pickle.dumps(Payload()))),
        Damage(
            "a payload in an old pickle", lambda path: path.write_bytes(pickle.dumps(Payload(), 0))
        ),
    ]
)


# ---------------------------------------------------------------- pictures and arrays


def _encoded(suffix: str, **shape: Any) -> Callable[[Path], Any]:
    image = np.full(shape["size"], shape.get("value", 7), shape.get("dtype", np.uint8))
    return lambda path: path.write_bytes(cv2.imencode(suffix, image)[1].tobytes())


PICTURES = st.sampled_from(
    [
        Damage("1x1", _encoded(".png", size=(1, 1, 3))),
        Damage("another size", _encoded(".png", size=(8, 90, 3))),
        Damage("16 bits", _encoded(".png", size=(36, 64, 3), dtype=np.uint16, value=999)),
        Damage("a label of an unknown class", _encoded(".png", size=(36, 64), value=251)),
        Damage("a huge header", _edit(lambda d: d[:16] + b"\x7f\xff\xff\xff" * 2 + d[24:])),
    ]
)
HALVED = st.floats(0.5, 0.95).map(
    lambda part: Damage(
        f"JPEG cut at {part:.3f}, with an end",
        _edit(lambda data: data[: _at(data, part)] + b"\xff\xd9"),
    )
)


def _array(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], Any]:
    """Of a .npy file, or of the images in a .npz file."""

    def apply(path: Path) -> None:
        if path.suffix == ".npy":
            return np.save(path, change(np.load(path)))
        content = dict(np.load(path))
        return np.savez(path, **{**content, "images": change(content["images"])})

    return apply


def _bomb(path: Path) -> None:
    """A few bytes that claim to be a petabyte."""
    file = io.BytesIO()
    shape = {"descr": "|u1", "fortran_order": False, "shape": (2**40, 28, 28, 1)}
    np.lib.format.write_array_header_1_0(file, shape)
    if path.suffix == ".npy":
        path.write_bytes(file.getvalue())
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("images", "labels", "classes"):
                archive.writestr(f"{name}.npy", file.getvalue())


SWAPPED = st.just(Damage("two swapped", _array(lambda a: a[[-1, *range(1, len(a) - 1), 0]])))
ARRAYS = st.sampled_from(
    [
        Damage("of floats", _array(lambda array: array.astype(np.float32) / 3)),
        Damage("one less", _array(lambda array: array[:-1])),
        Damage("empty", _array(lambda array: array[:0])),
        Damage("of objects", _array(lambda array: np.array([Payload()]))),
        Damage("a bomb", _bomb),
    ]
)


# ---------------------------------------------------------------- archives


def _members(*members: tuple[tarfile.TarInfo, bytes]) -> Callable[[Path], None]:
    """Put members in front of those that an archive has."""

    def apply(path: Path) -> None:
        old = path.with_suffix(".old")
        shutil.move(path, old)
        with tarfile.open(old) as before, tarfile.open(path, "w:gz") as archive:
            for member, data in members:
                member.size = member.size or len(data)
                archive.addfile(member, io.BytesIO(data.ljust(member.size, b"\0")))
            for member in before:
                archive.addfile(member, before.extractfile(member))

    return apply


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


BATCH = "cifar-10-batches-py/data_batch_1"
MEMBERS = st.sampled_from(
    [
        Damage("a payload as a batch", _members((_member(BATCH), pickle.dumps(Payload(), 2)))),
        Damage("a batch twice", _members((_member(BATCH), b"x"))),
        Damage("a batch that is a link", _members((_member(BATCH, tarfile.SYMTYPE, "/x"), b""))),
        Damage("a path outside", _members((_member(f"../{CANARY}"), b"x")), valid=True),
        Damage("a device", _members((_member(BATCH, tarfile.CHRTYPE), b"")), valid=True),
    ]
)
