"""Segmentation data sets from the command line to the files on disk. Rendering is faked here."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from prepare_tools import snapshot, tool, use_fewer, write_pair

from fedseg.cli import run
from fedseg.config.check import complete_config
from fedseg.data_prep import cityscapes, synthetic_streets
from fedseg.data_prep.outcome import next_command
from fedseg.data_prep.paired_images import rendered_files
from fedseg.data_prep.split_folders import limit
from fedseg.data_prep.split_rules import build_cityscapes, build_idda
from fedseg.data_prep.street_sets import CITYSCAPES, IDDA
from fedseg.datasets import CityscapesDataset, IDDADataset
from fedseg.errors import DataError
from fedseg.loaders.streaming import StreamingData
from fedseg.names import DISTRIBUTIONS
from fedseg.partition import Split, read_split, write_split
from fedseg.runner.experiment import load_config

VALIDATED = ("val/frankfurt", "val/lindau", "val/munster")


@pytest.fixture
def rendered(monkeypatch):
    """A renderer that writes tiny pairs; yields the list of what it was asked for, call by call."""
    calls = []

    roots = {"idda": ("IDDAsmall", "IDDAsmall"), "cityscapes": ("leftImg8bit", "gtFine")}

    def write(data_set, root, files, size):
        calls.append((list(files), {"size": size}))
        for number, sample in enumerate(files):
            # Every fifth label map shows a bicycle (16), the others road and sky.
            ids = (7, 20, 16) if number % 5 == 0 else (7, 20)
            write_pair(*(root / folder for folder in roots[data_set.name]), sample, ids)
        (root / "dataset.json").write_text(json.dumps({"synthetic": True}))

    monkeypatch.setattr(synthetic_streets, "write_streets", write)
    return calls


def test_synthetic_idda_writes_every_split_and_the_same_bytes_again(
    tmp_path, rendered, prepare, monkeypatch
):
    use_fewer(monkeypatch, 11)
    for root in ("one", "two"):
        arguments = ("--root", tmp_path / root, "--synthetic")
        shown = prepare("idda", *arguments, "--setting", "rainy")
        assert "class_imbalance/rainy" in shown and "synthetic" in shown
        config = re.search(r"fedseg train (\S+)", shown)[1]
        assert config == "idda_rainy"
    first, second = (snapshot(tmp_path / root / "splits") for root in ("one", "two"))
    assert first == second and len(first) == 3 * 3
    for distribution in DISTRIBUTIONS:
        dataset = IDDADataset(str(tmp_path / "one"), f"splits/{distribution}/rainy/train")
        assert len(dataset) == 69 * 9 and len(set(dataset.users)) == 69
        note = json.loads(first[f"{distribution}/rainy/split.json"])
        assert note["seed"] == 0 and note["synthetic"] and note["rule"]
        assert note["train"]["checksum"] == dataset.split_checksum
    # Splits of the images on disk are the same; so another seed needs no rendering.
    arguments = ("--root", tmp_path / "one")
    prepare("idda", *arguments, "--setting", "rainy")
    assert snapshot(tmp_path / "one" / "splits") == first
    prepare("idda", *arguments, "--setting", "bus", "--seed", 1)


def test_limits_cut_the_split_and_what_is_rendered(tmp_path, rendered, prepare):
    limits = ("--limit-per-user", 2, "--limit-test", 1, "--size", "64x32")
    prepare(
        "idda",
        *("--root", tmp_path, "--synthetic", "--setting", "country"),
        *("--distribution", "heterogeneous", *limits),
    )
    folder = tmp_path / "splits" / "heterogeneous" / "country"
    train, test = read_split(folder / "train"), read_split(folder / "test")
    assert [len(samples) for samples in train.users.values()] == [2] * 90
    assert [len(samples) for samples in test.users.values()] == [14, 90]
    whole = build_idda(rendered_files(IDDA), ("heterogeneous", "country"), 0)
    assert {user: samples[:2] for user, samples in whole[0].users.items()} == train.users
    assert limit(*whole, 100, None, IDDADataset.image_path) == whole
    ((files, options),) = rendered
    assert set(files) == {*train.samples, *test.samples} and options == {"size": (64, 32)}
    note = json.loads((folder / "split.json").read_text())
    assert note["limit"] == {"per_user": 2, "test_per_domain": 1}


def write_parts(folder, train, test):
    write_split(folder / "train", train)
    write_split(folder / "test", test)


def test_from_copies_published_files_unchanged_and_counts_what_is_missing(
    tmp_path, prepare, monkeypatch
):
    few = use_fewer(monkeypatch, 5)
    source, root = tmp_path / "source", tmp_path / "root"
    for setting in IDDA.settings:
        folder = source / "data" / "heterogeneous" / setting
        splits = build_idda(rendered_files(few), ("heterogeneous", setting), 0)
        write_parts(folder, *splits)
        # published files are split by user and written in another style
        for file in list(folder.rglob("*.json")):
            file.write_text(json.dumps(json.loads(file.read_text()), indent=3))
    message = prepare.fails("idda", "--root", root, "--from", source)
    assert f"{2 * 520} of {2 * 520} files missing" in message
    copied, published = snapshot(root / "splits"), snapshot(source / "data")
    assert {path: copied[path] for path in published} == published
    notes = {f"heterogeneous/{setting}/split.json" for setting in IDDA.settings}
    assert set(copied) - set(published) == notes


def test_from_with_synthetic_renders_exactly_what_the_files_name(tmp_path, rendered, prepare):
    source = tmp_path / "uniform"
    write_parts(source, *build_cityscapes(rendered_files(CITYSCAPES), ("uniform",), 5))
    options = ("--distribution", "uniform", "--synthetic", "--limit-per-user", 1, "--limit-test", 2)
    prepare("cityscapes", "--root", tmp_path, "--from", source, *options)
    ((files, _),) = rendered
    assert len(files) == 146 + 3 * 2
    assert all((tmp_path / "gtFine" / label).is_file() for _, label in files)
    note = json.loads((tmp_path / "splits" / "uniform" / "split.json").read_text())
    assert note["source"] == "published files" and note["train"]["clients"] == 146


def make_published(folder, **test_users):
    write_split(folder / "train", Split({"a": [("T01_CN_A/RGB/1.jpg", "T01_CN_A/Semantic/1.png")]}))
    users = test_users or {
        user: [(f"T01_HRN_A/RGB/{user}.jpg", f"T01_HRN_A/Semantic/{user}.png")]
        for user in ("test_user_diff_domain", "test_user_same_domain")
    }
    write_split(folder / "test", Split(users))
    return folder


def test_from_names_the_missing_files(tmp_path, prepare):
    source = make_published(tmp_path / "source" / "uniform" / "bus")
    write_pair(*[tmp_path / "IDDAsmall"] * 2, read_split(source / "train").samples[0])
    (tmp_path / "IDDAsmall" / "T01_CN_A" / "Semantic" / "1.png").unlink()
    message = prepare.fails("idda", "--root", tmp_path, "--from", tmp_path / "source")
    assert "5 of 6 files missing" in message and "T01_CN_A/Semantic/1.png" in message
    assert "T01_CN_A/RGB/1.jpg" not in message


def test_from_must_hold_what_is_named_and_tells_what_else_is_absent(tmp_path, rendered, prepare):
    for place in ("uniform/bus", "uniform/rainy", "heterogeneous/bus"):
        make_published(tmp_path / "source" / place)

    def arguments(root, *which):
        which = ("--synthetic", "--size", "64x32", *which)
        return "idda", "--root", tmp_path / root, "--from", tmp_path / "source", *which

    uniform, rainy = ("--distribution", "uniform"), ("--setting", "rainy")
    for which, lacking in (
        (("--setting", "country", *rainy), "uniform/country, "),
        (("--distribution", "heterogeneous", *uniform, *rainy), "heterogeneous/rainy"),
    ):
        assert f"does not hold {lacking}" in prepare.fails(*arguments("none", *which))
    assert not (tmp_path / "none").exists()
    out = prepare(*arguments("all"))
    assert "does not hold uniform/country, heterogeneous/country, heterogeneous/rainy, class" in out
    assert len(list((tmp_path / "all").rglob("split.json"))) == 3
    assert "does not hold" not in prepare(*arguments("one", *uniform, *rainy))


def test_from_refuses_what_is_no_split_of_this_data_set(tmp_path, prepare):
    base = ("idda", "--root", tmp_path / "root", "--from")
    assert str(tmp_path) in prepare.fails(*base, tmp_path)
    one = make_published(tmp_path / "one")
    assert "--distribution" in prepare.fails(*base, one)
    which = ("--distribution", "uniform", "--setting", "bus")
    (one / "test" / "clients.json").write_text("{}")
    assert "clients.json" in prepare.fails(*base, one, *which)
    other = make_published(tmp_path / "other", test_user=[("x.jpg", "x.png")])
    assert "test_user_diff_domain" in prepare.fails(*base, other, *which)
    both = [("T01_CN_A/RGB/1.jpg", "T01_CN_A/Semantic/1.png")]
    leak = make_published(
        tmp_path / "leak", test_user_diff_domain=both, test_user_same_domain=[("x.jpg", "x.png")]
    )
    assert "T01_CN_A/RGB/1.jpg" in prepare.fails(*base, leak, *which)
    assert not (tmp_path / "root").exists()


def test_another_split_is_not_overwritten_unasked(tmp_path, rendered, prepare, monkeypatch):
    use_fewer(monkeypatch, 5)
    base = ("idda", "--root", tmp_path, "--synthetic")
    which = ("--setting", "bus", "--distribution", "uniform")
    prepare(*base, *which)
    before = snapshot(tmp_path / "splits")
    prepare(*base, *which)
    count = len(rendered)
    assert "--overwrite" in prepare.fails(*base, *which, "--seed", 1)
    assert len(rendered) == count and snapshot(tmp_path / "splits") == before
    prepare(*base, *which, "--seed", 1, "--overwrite")
    assert snapshot(tmp_path / "splits") != before


def test_an_interrupted_replacement_is_not_read_until_it_is_repeated(
    tmp_path, rendered, prepare, monkeypatch
):
    use_fewer(monkeypatch, 5)
    base = ("idda", "--root", tmp_path, "--synthetic")
    which = ("--setting", "bus", "--distribution", "uniform")
    prepare(*base, *which)
    folder = tmp_path / "splits" / "uniform" / "bus"
    before = snapshot(folder)

    def write(place, split):
        written = write_split(place, split)
        assert place.name == "test", "killed"
        return written

    with monkeypatch.context() as patch, pytest.raises(AssertionError, match="killed"):
        patch.setattr("fedseg.data_prep.split_folders.write_split", write)
        tool(*base, *which, "--seed", 1, "--overwrite")
    after = snapshot(folder)
    assert after["train/clients.json"] != before["train/clients.json"]
    assert after["test/clients.json"] == before["test/clients.json"]  # of other clients
    for part in ("train", "test"):
        with pytest.raises(DataError, match=f"{part}: is incomplete .*repeat the fedseg prepare"):
            IDDADataset(str(tmp_path), f"splits/uniform/bus/{part}")
    prepare(*base, *which)  # nothing is there that asks for --overwrite
    assert snapshot(folder) == before


def test_the_same_published_files_are_not_copied_again(tmp_path, rendered, prepare, monkeypatch):
    source = make_published(tmp_path / "source" / "uniform" / "bus")
    arguments = ("idda", "--root", tmp_path, "--from", tmp_path / "source")
    prepare(*arguments, "--synthetic")
    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", lambda *_: pytest.fail("copied again"))
        prepare(*arguments)
        prepare(*arguments, "--overwrite")

    def copy(file, target):
        raise OSError(28, "No space left on device", str(target))

    write_split(source / "train", Split({"b": read_split(source / "train").samples}))
    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", copy)
        assert "No space left on device" in prepare.fails(*arguments, "--overwrite")
    with pytest.raises(DataError, match="train: is incomplete"):
        read_split(tmp_path / "splits" / "uniform" / "bus" / "train")
    prepare(*arguments)
    assert list(read_split(tmp_path / "splits" / "uniform" / "bus" / "train").users) == ["b"]


def test_synthetic_refuses_a_root_with_real_data(tmp_path, prepare):
    write_pair(*[tmp_path / "IDDAsmall"] * 2, ("T01_CN_A/RGB/1.jpg", "T01_CN_A/Semantic/1.png"))
    before = snapshot(tmp_path)
    assert "--root" in prepare.fails("idda", "--root", tmp_path, "--synthetic")
    assert snapshot(tmp_path) == before


def test_options_without_effect_are_refused(tmp_path, prepare):
    base = ("idda", "--root", tmp_path)
    assert "--size" in prepare.fails(*base, "--size", "64x32")
    assert "WIDTHxHEIGHT" in prepare.fails(*base, "--size", "32")
    assert "--limit-test" in prepare.fails(*base, "--limit-test", 0)
    (tmp_path / "a\nb").mkdir()
    assert r"a\nb': has a line break" in prepare.fails("idda", "--root", tmp_path / "a\nb")
    for seed in (-1, 99999999999999999999):
        for name in ("idda", "cityscapes"):
            message = prepare.fails(name, "--root", tmp_path, "--seed", seed)
            assert "--seed: must be " in message and f", not {seed}" in message


def test_cityscapes_verification_and_split(tmp_path, monkeypatch, prepare):
    assert "leftImg8bit_trainvaltest.zip" in prepare.fails("cityscapes", "--root", tmp_path)
    cities = {"train/aachen": 17, "train/ulm": 8, **dict.fromkeys(VALIDATED, 2)}
    folders = {"train": {}, "val": {}}
    for folder, count in cities.items():
        split, city = folder.split("/")
        folders[split][city] = count
    few = replace(CITYSCAPES, folders=folders)
    monkeypatch.setattr(cityscapes, "CITYSCAPES", few)
    for samples in rendered_files(few).values():
        for sample in samples:
            write_pair(tmp_path / "leftImg8bit", tmp_path / "gtFine", sample)
    arguments = ("--root", tmp_path, "--distribution", "heterogeneous")
    (tmp_path / "gtFine/train/ulm/a_gtFine_color.png").touch()
    (tmp_path / "gtFine/train/ulm/._a_gtFine_labelIds.png").touch()
    out = prepare("cityscapes", *arguments)
    assert "heterogeneous: 1 images belong to no client" in out
    train = read_split(tmp_path / "splits" / "heterogeneous" / "train")
    assert list(train.users)[7:9] == ["aachen7", "ulm0"] and len(train) == 16 + 8
    published = (tmp_path / "splits").rename(tmp_path / "published")
    prepare("cityscapes", *arguments, "--from", published)
    removed = next((tmp_path / "leftImg8bit" / "train" / "ulm").iterdir())
    removed.unlink()
    message = prepare.fails("cityscapes", *arguments)
    assert "1 label maps without an image: train/ulm/" in message


def write_sample(root, counts):
    """The first images of these folders of Cityscapes or domains of IDDA, and no others."""
    for place, count in counts.items():
        for number in range(count):
            if "/" in place:
                city = place.split("/")[1]
                stem = f"{place}/{city}_{number:06d}_000019"
                pair = (f"{stem}_leftImg8bit.png", f"{stem}_gtFine_labelIds.png")
                write_pair(root / "leftImg8bit", root / "gtFine", pair)
            else:
                name = f"{number}_{place}"
                pair = (f"{place}/RGB/{name}.jpg", f"{place}/Semantic/{name}.png")
                write_pair(root / "IDDAsmall", root / "IDDAsmall", pair, (7, 20))


CITY_SAMPLE = {"train/aachen": 17, "train/ulm": 3, "val/lindau": 2}
DOMAIN_SAMPLE = {"T01_CN_A": 6, "T02_HRN_A": 4, "T03_CN_A": 3, "T04_CN_A": 2}


@pytest.mark.parametrize("name", ["cityscapes", "idda"])
def test_a_sample_of_the_data_is_taken_if_one_says_so(tmp_path, prepare, name):
    write_sample(tmp_path, CITY_SAMPLE if name == "cityscapes" else DOMAIN_SAMPLE)
    assert "--unofficial" in prepare.fails(name, "--root", tmp_path)
    shown = prepare(name, "--root", tmp_path, "--unofficial")
    assert "incomplete: results are not comparable with published ones" in shown
    notes = [json.loads(file.read_text()) for file in tmp_path.rglob("split.json")]
    total = "22 of 3475 images" if name == "cityscapes" else "15 of 6240 images"
    assert {note["unofficial"] for note in notes} == {total}
    assert len(notes) == 3
    if name == "cityscapes":
        train = read_split(tmp_path / "splits" / "heterogeneous" / "train")
        assert list(train.users) == [f"aachen{i}" for i in range(8)] + [f"ulm{i}" for i in range(3)]
        assert [len(samples) for samples in train.users.values()] == [2] * 8 + [1] * 3
        uniform = read_split(tmp_path / "splits" / "uniform" / "train")
        assert 10 <= len(uniform) <= 20
    else:
        assert "country: left out, no images for test_user_diff_domain" in shown
        train = read_split(tmp_path / "splits" / "heterogeneous" / "rainy" / "train")
        users = {user: len(samples) for user, samples in train.users.items()}
        assert users == {"T01_CN_A": 5, "T03_CN_A": 2}  # one of each is tested; T04 has too few
    check_next_command(shown)


def test_folders_may_be_links(tmp_path, prepare):
    """Images are linked as a whole, as MMSegmentation advises, label maps by a folder of them."""
    write_sample(tmp_path / "elsewhere", CITY_SAMPLE)
    root = tmp_path / "root"
    (root / "gtFine").mkdir(parents=True)
    (root / "leftImg8bit").symlink_to(tmp_path / "elsewhere" / "leftImg8bit")
    for part in ("train", "val"):
        (root / "gtFine" / part).symlink_to(tmp_path / "elsewhere" / "gtFine" / part)
    prepare("cityscapes", "--root", root, "--distribution", "heterogeneous", "--unofficial")
    dataset = CityscapesDataset(str(root), "splits/heterogeneous/train")
    assert len(dataset) == 16 + 3 and dataset[18]["data_samples"].shape == (8, 16)


def test_published_splits_keep_the_images_that_are_there(tmp_path, prepare):
    source = tmp_path / "published"
    domains = ("T01_CN_A", "T02_CN_A", "T03_HRN_A")
    write_sample(tmp_path / "all", dict.fromkeys(domains, 5))

    def pairs(domain, numbers):
        names = [f"{number}_{domain}" for number in numbers]
        return [(f"{domain}/RGB/{n}.jpg", f"{domain}/Semantic/{n}.png") for n in names]

    train = {domain: pairs(domain, (0, 1, 2, 3)) for domain in domains[:2]}
    test = {"test_user_diff_domain": pairs(domains[2], range(5))}
    test["test_user_same_domain"] = [*pairs(domains[0], [4]), *pairs(domains[1], [4])]
    write_parts(source, Split(train), Split(test))
    which = ("--distribution", "heterogeneous", "--setting", "rainy", "--from", source)
    write_sample(tmp_path / "some", {domains[0]: 5, domains[1]: 1, domains[2]: 3})
    assert "files missing" in prepare.fails("idda", "--root", tmp_path / "some", *which)
    shown = prepare("idda", "--root", tmp_path / "some", *which, "--unofficial", "--overwrite")
    folder = tmp_path / "some" / "splits" / "heterogeneous" / "rainy"
    assert read_split(folder / "train").users == {domains[0]: train[domains[0]]}
    assert [len(samples) for samples in read_split(folder / "test").users.values()] == [3, 1]
    assert json.loads((folder / "split.json").read_text())["unofficial"] == "8 of 15 images"
    check_next_command(shown)
    prepare("idda", "--root", tmp_path / "all", *which, "--unofficial")
    note = (tmp_path / "all" / "splits" / "heterogeneous" / "rainy" / "split.json").read_text()
    assert "unofficial" not in json.loads(note)


def check_next_command(shown):
    """The printed command's options fit the split: every client has a batch of its config."""
    *_, line = shown.splitlines()
    words = shlex.split(line.removeprefix("Next: "))
    position = words.index("--cfg-options")
    setting = words[words.index("train") + 1]
    config = complete_config(load_config(setting, options=words[position + 1 :]))
    data = StreamingData(
        config.train_dataloader.dataset,
        config.train_dataloader.partition,
        config.train_dataloader.batch_size,
        drop_last=config.train_dataloader.drop_last,
        drop_single=True,
    )
    assert len(data.clients) >= config.client_sampler.clients_per_round
    assert data.checksum()


@pytest.mark.parametrize("limit", [2, 8, 20])
def test_the_command_after_a_limited_split_has_a_batch_that_every_client_fills(
    tmp_path, rendered, prepare, limit
):
    which = ("--setting", "rainy", "--distribution", "heterogeneous")
    small = ("--synthetic", "--limit-per-user", limit, "--limit-test", 1)
    shown = prepare("idda", "--root", tmp_path, *which, *small)
    assert ("train_dataloader.batch_size" in shown) == (limit < 16)
    check_next_command(shown)
    message = prepare.fails("idda", "--root", tmp_path, *which, "--limit-per-user", 1)
    assert "--limit-per-user: must be at least 2" in message


@pytest.mark.parametrize("data_set", [CITYSCAPES, IDDA])
def test_what_settings_ask_of_a_client_is_known(data_set):
    name = "idda_rainy" if data_set is IDDA else "cityscapes_uniform"
    config = complete_config(load_config(name))
    loader = config.train_dataloader
    assert loader.drop_last and loader.batch_size == data_set.batch_size
    assert data_set.copies == 1 + bool(loader.dataset.get("mirror"))
    assert config.client_sampler.clients_per_round == data_set.clients_per_round


def test_run_exit_codes(capsys):
    def interrupted():
        raise KeyboardInterrupt

    def broken():
        raise ZeroDivisionError

    for main, code in ((lambda: None, 0), (lambda: 3, 3), (interrupted, 130)):
        with pytest.raises(SystemExit) as end:
            run(main)
        assert end.value.code == code
    with pytest.raises(ZeroDivisionError):
        run(broken)


def test_the_next_command_names_a_root_that_is_not_the_usual_one():
    for root, option in (("data/idda", ""), ("a b", " --cfg-options 'data_root=a b'")):
        command = next_command("idda_rainy", Path("data/idda"), Path(root))
        assert command.endswith(f" train idda_rainy --dry-run{option}")
