"""Photographs with label maps of a published data set: verify, copy, and name rendered ones."""

import filecmp
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fedseg.datasets
from fedseg.datasets import SegmentationDataset
from fedseg.datasets.templates import fields_of, fill
from fedseg.errors import DataError
from fedseg.files import atomic_writer

from .disk import Findings, Images, check_files, find_pairs
from .facts import PairedSet


def kind_of(data_set: PairedSet) -> type[SegmentationDataset]:
    """Look up the class of a data set."""
    return getattr(fedseg.datasets, data_set.dataset)


def roots_of(data_set: PairedSet, root: Path) -> tuple[Path, Path]:
    """Find the folders of images and of label maps below a data root."""
    kind = kind_of(data_set)
    return root / kind.image_root, root / kind.label_root


def verify(
    data_set: PairedSet, root: Path, print_sizes: bool = True, unofficial: bool = False
) -> Images:
    """Pair every image with its label map and check both: domain -> samples by folder and name.

    Args:
        print_sizes: print whether images have the published size.
        unofficial: accept any number of images.
    """
    kind, roots = kind_of(data_set), roots_of(data_set, root)
    for base in roots:
        if not base.is_dir():
            render = ", or render synthetic data with --synthetic" if data_set.size else ""
            raise DataError(
                f"{base}: does not exist: {data_set.source}, name another root with --root{render}"
            )
    pairs = find_pairs(roots, kind.image_path, kind.label_path)
    counts = {split: dict.fromkeys(domains, 0) for split, domains in data_set.folders.items()}
    images: Images = {}
    for split, domains in counts.items():
        for sample in pairs.samples:
            fields = fields_of(kind.image_path, sample[0])
            if fields.get("split", "") == split:
                domain = fields["domain"]
                domains[domain] = domains.get(domain, 0) + 1
                images.setdefault(domain, []).append(sample)
    fix = data_set.source
    if data_set.size and not unofficial:
        fix += ", or accept the images that are there with --unofficial"
    findings = Findings(f"{root}: is not {data_set.contents}", fix)
    if not unofficial:
        findings.add("images without a label map", _listed(kind.image_path, pairs.images, counts))
        findings.add("label maps without an image", _listed(kind.label_path, pairs.labels, counts))
        findings.add("folders with another number of pairs", _other_counts(data_set, counts))
        findings.raise_any()
    samples = [sample for group in images.values() for sample in group]
    size = data_set.published_size if print_sizes else None
    check_files(samples, roots, root, findings, size)
    return images


def _listed(template: str, paths: Sequence[str], counts: Mapping[str, Any]) -> list[str]:
    """List the paths that are of the published splits."""
    return [path for path in paths if fields_of(template, path).get("split", "") in counts]


def _other_counts(data_set: PairedSet, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """List the domains that have another number of pairs than is published."""
    wrong = []
    for split, domains in counts.items():
        for domain, count in domains.items():
            published = data_set.folders[split].get(domain, 0)
            if count != published:
                place = f"{split}/{domain}".removeprefix("/")
                wrong.append(f"{place} ({count} instead of {published})")
    return wrong


def copy_images(data_set: PairedSet, source: Path, root: Path, overwrite: bool = False) -> None:
    """Verify a data set in ``source``, then copy to ``root`` what is not there."""
    names: list[str] = []
    for samples in verify(data_set, source, print_sizes=False).values():
        for sample in samples:
            names.extend(sample)
    present = {name for name in names if (root / name).exists()}
    same = {n for n in present if filecmp.cmp(source / n, root / n, shallow=False)}
    differing = sorted(present - same)
    if differing and not overwrite:
        raise DataError(
            f"{root / differing[0]}: is another file than {source / differing[0]} "
            f"({len(differing)} such): "
            "give --overwrite to replace them, or another --root"
        )
    for name in names:
        if name not in same:
            with atomic_writer(root / name, "wb") as file, open(source / name, "rb") as original:
                shutil.copyfileobj(original, file)


def rendered_files(data_set: PairedSet) -> Images:
    """Name the files of a whole synthetic data set: domain -> samples by name."""
    kind = kind_of(data_set)
    images: Images = {}
    for split, domains in data_set.folders.items():
        for domain, count in domains.items():
            samples = []
            for number in range(data_set.first_number, data_set.first_number + count):
                name = data_set.rendered_name.format(domain=domain, number=number)
                fields = {"split": split, "domain": domain, "name": name, "ending": "jpg"}
                samples.append((fill(kind.image_path, fields), fill(kind.label_path, fields)))
            images[domain] = sorted(samples)
    return images
