"""Predictions as files: label maps, pictures with a legend, a table of classes, videos."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from fedseg.datasets.images import ENDINGS
from fedseg.errors import DataError
from fedseg.files import atomic_writer, make_folder, write_text
from fedseg.inference.predictor import Predictor, pixels_of
from fedseg.report.figures import save_figure
from fedseg.report.segmentation import Classes, Panel, paint, segmentation_figure
from fedseg.runs.tables import csv_text

VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v")
FRAMES = 32  # of a video that are in memory
Advance = Callable[[int], None]
Row = tuple[str, int, str, float]  # file, class id, class, probability


def is_hidden(path: str) -> bool:
    """True if a part of a path is a file of the system or an editor: macOS, Synology."""
    return any(part[:1] == "." or part in ("__MACOSX", "@eaDir") for part in path.split("/"))


def find_images(paths: Sequence[str | Path]) -> dict[str, Path]:
    """Every image and video of files and folders, by the name that its predictions get."""
    found: list[tuple[str, Path]] = []
    for given in map(Path, paths):
        if not given.exists():
            raise DataError(f"{given}: does not exist: name an image, a video or a folder of them")
        kinds = sorted({*ENDINGS, *VIDEOS})
        found_there = (path for path in given.rglob("*") if path.is_file())
        there = sorted(p for p in found_there if not is_hidden(p.relative_to(given).as_posix()))
        inside = [path for path in there if path.suffix.lower() in kinds]
        others, accepted = len(there) - len(inside), f"accepted: {', '.join(kinds)}"
        if given.is_dir() and not inside:
            raise DataError(f"{given}: has no images or videos ({accepted})")
        if others:
            text = f"{given}: skipped {others} files that are not images or videos ({accepted}); "
            text += "convert photographs in other formats, such as HEIC, to JPEG or PNG"
            warnings.warn(text)  # noqa: B028
        names = (str(path.relative_to(given).with_suffix("")) for path in inside)
        found += zip(names, inside, strict=True) if given.is_dir() else [(given.stem, given)]
    named, own = {}, {name for name, _ in found}
    for name, path in found:
        unique, number = name, 1
        while unique in named or (number > 1 and unique in own):  # of another folder or format
            number += 1
            unique = f"{name}_{number}"
        named[unique] = path
    return named


def write_predictions(
    predictor: Predictor,
    paths: Sequence[str | Path],
    out: Path,
    batch_size: int | None = None,
    advance: Advance = lambda images: None,
) -> list[Path]:
    """Predict images and videos, and write what is predicted of each.

    Images of folders that cannot be read are skipped with a warning.
    """
    named = find_images(paths)
    photos, videos = {}, {}
    for name, path in named.items():
        kind = videos if path.suffix.lower() in VIDEOS else photos
        kind[name] = path
    files, rows = _predict_photos(predictor, photos, paths, out, batch_size, advance)
    if not files and not rows and not videos:
        raise DataError(f"{', '.join(map(str, paths))}: none of the images can be read")
    for name, path in videos.items():
        more_files, more_rows = _predict_video(predictor, name, path, out, batch_size, advance)
        files += more_files
        rows += more_rows
    if rows:
        write_text(out / "predictions.csv", csv_text(("file", "id", "class", "probability"), rows))
        files.append(out / "predictions.csv")
    return files


def _predict_photos(
    predictor: Predictor,
    photos: Mapping[str, Path],
    paths: Sequence[str | Path],
    out: Path,
    batch_size: int | None,
    advance: Advance,
) -> tuple[list[Path], list[Row]]:
    """Predict photographs by name: written files of class maps, or rows of classes."""
    names, named_by_user = list(photos), {Path(path) for path in paths}

    def skip_in_folder(index: int, error: DataError) -> None:
        if photos[names[index]] in named_by_user:
            raise error
        warnings.warn(f"skipped: {error}")  # noqa: B028

    files: list[Path] = []
    rows: dict[int, Row] = {}
    for prediction in predictor.predict(list(photos.values()), batch_size, skip_in_folder):
        name = names[prediction.index]
        if predictor.maps:
            files += write_map(out, name, prediction.image, prediction.classes, predictor.classes)
        else:
            rows[prediction.index] = _row(str(photos[name]), prediction, predictor.classes)
        advance(1)
    return files, [rows[index] for index in sorted(rows)]


def _predict_video(
    predictor: Predictor,
    name: str,
    path: Path,
    out: Path,
    batch_size: int | None,
    advance: Advance,
) -> tuple[list[Path], list[Row]]:
    """The same of the frames of a video, with a video of the class maps over it."""
    files: list[Path] = []
    rows: list[Row] = []
    with _Video(path, out / "pictures" / f"{name}.mp4") as video:
        for first, frames in video.parts():
            predictions = {}
            for prediction in predictor.predict(frames, batch_size):
                predictions[prediction.index] = prediction
                advance(1)
            for number, frame in enumerate(frames):
                prediction, at = predictions[number], first + number
                if predictor.maps:
                    map_name, ids = f"{name}/{at:06d}", prediction.classes
                    files += write_map(out, map_name, None, ids, predictor.classes)
                    video.write(paint(Panel(image=frame, class_map=ids), predictor.classes))
                else:
                    rows.append(_row(f"{path}#{at}", prediction, predictor.classes))
        if predictor.maps:
            files.append(video.out)
    return files, rows


def write_test_predictions(
    predictor: Predictor, out: Path, advance: Advance = lambda images: None
) -> list[Path]:
    """Predict the run's test images, as evaluation does: a folder or table for each view."""
    files, rows = [], {}
    for test, view, index, prediction in predictor.test_images():
        listed = getattr(test.dataset, "files", None)
        file = str(listed[index][0]) if listed is not None else f"sample {index}"
        prediction = np.asarray(prediction.cpu())
        if prediction.ndim:
            name = f"{view}/{index:05d}" + (f"_{Path(file).stem}" if listed is not None else "")
            image = pixels_of(file) if listed is not None else None
            files += write_map(out, name, image, prediction, predictor.classes)
        else:
            row = (file, int(prediction), predictor.classes.names[int(prediction)])
            rows.setdefault(view, []).append(row)
        advance(1)
    for view, lines in rows.items():
        path = out / f"predictions_{view}.csv"
        write_text(path, csv_text(("file", "id", "class"), lines))
        files.append(path)
    return files


def _row(file: str, prediction: Any, classes: Classes) -> Row:
    id_ = int(prediction.classes)
    return file, id_, classes.names[id_], float(prediction.probabilities[id_])


def write_map(
    out: Path, name: str, image: np.ndarray | None, ids: np.ndarray, classes: Classes
) -> list[Path]:
    """Write ``labels/<name>.png``, ids with a palette, and ``pictures/<name>.png``, over the image.

    Of more than 256 classes the ids have 16 bits, and there is no palette.
    """
    if max(len(classes.names) - 1, ids.max()) > 255:
        label = Image.fromarray(ids.astype(np.uint16))
    else:
        label = Image.fromarray(ids.astype(np.uint8))
        label.putpalette(classes.table().tobytes())
    path = out / "labels" / f"{name}.png"
    with atomic_writer(path, "wb") as file:
        label.save(file, format="PNG")
    if image is None:
        return [path]
    figure = segmentation_figure([[Panel(image=image, class_map=ids)]], classes)
    return [path, save_figure(figure, out / "pictures" / f"{name}.png")]


class _Video:
    """Reads the frames of a video, and writes another of its rate."""

    def __init__(self, path: Path, out: Path) -> None:
        self.path, self.out, self._writer = path, out, None

    def __enter__(self) -> "_Video":
        self._reader = cv2.VideoCapture(str(self.path))
        return self

    def __exit__(self, *_: Any) -> None:
        self._reader.release()
        if self._writer is not None:
            self._writer.release()

    def parts(self) -> Iterator[tuple[int, list[np.ndarray]]]:
        """A few frames at a time, with the number of the first."""
        first, frames = 0, [np.empty(0)] * FRAMES
        while len(frames) == FRAMES:
            frames = []
            while len(frames) < FRAMES and (read := self._reader.read())[0]:
                frames.append(cv2.cvtColor(read[1], cv2.COLOR_BGR2RGB))
            if frames:
                yield first, frames
            first += len(frames)
        if not first:
            raise DataError(f"{self.path}: OpenCV reads no frame of it: convert it to MP4 (H.264)")

    def write(self, picture: np.ndarray) -> None:
        """Add a frame; H.264 and its like take even sizes only."""
        picture = picture[: len(picture) // 2 * 2, : picture.shape[1] // 2 * 2]
        if self._writer is None:
            make_folder(self.out.parent)
            code, rate = cv2.VideoWriter.fourcc(*"mp4v"), self._reader.get(cv2.CAP_PROP_FPS)
            size = picture.shape[1::-1]
            self._writer = cv2.VideoWriter(str(self.out), code, rate or 25, size)
        self._writer.write(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
