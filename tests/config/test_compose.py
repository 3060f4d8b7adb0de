"""Composition: what is merged in which order, what it is called, what is refused."""

import itertools
import sys
from pathlib import Path

import pytest

from fedseg.config.check import complete_config, import_modules
from fedseg.config.compose import Composition, compose, setting_file
from fedseg.config.layers import CONFIGS
from fedseg.errors import ConfigError
from fedseg.runner.experiment import load_config
from fedseg.runner.work_dir import write_config
from fedseg.runs.config import config_digest

SETTING = """
model = dict(type="CNN", num_classes=10)
train_dataloader = dict(type="ResidentData", transforms=[dict(type="RandomFlip", prob=0.5)])
train_cfg = dict(max_rounds=3)
client_sampler = dict(type="UniformSampler", clients_per_round=1)
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="SGD", lr=0.1))
algorithm = dict(type="FedAvg", server_optim=dict(type="SGD", lr=1.0))
custom_hooks = [dict(type="First")]
"""


@pytest.fixture
def write(tmp_path):
    """Writes a config file and returns its path."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def mine(write) -> Path:
    return write("mine.py", SETTING)


def test_the_headline_experiment_in_every_way_that_it_can_be_said():
    file = load_config(CONFIGS / "idda_rainy_fedasam_swa.py")
    given = load_config(setting_file("idda_rainy_paper"), ["swa", "fedasam"])
    names = ("idda_rainy_fedasam_swa", "idda_rainy_paper_fedasam_swa")
    for config, name in zip((file, given), names, strict=True):
        assert config.experiment_name == name and config.work_dir == f"work_dirs/{name}/seed0"
        assert (config.setting, config.methods) == ("idda_rainy_paper", ["fedasam", "swa"])
        assert config.train_cfg.max_rounds == 1500 and config.algorithm == file.algorithm
    assert file.optim_wrapper.type == "ASAMOptimWrapper" and file.averaging.type == "SWA"


def name_of(setting, methods):
    return Composition(setting_file(setting), methods).name


def test_names_do_not_depend_on_the_order():
    well_known = {
        ("idda_rainy", "swa fedasam silobn"): "idda_rainy_silobn_fedasam_swa",
        ("idda_rainy", "silobn"): "idda_rainy_silobn",
        ("idda_rainy", ""): "idda_rainy",
        ("idda_rainy", "lab fedavg"): "idda_rainy_fedavg_lab",
        ("cifar10_a005", "resnet20 wima"): "cifar10_a005_wima_resnet20",
        ("cifar10_a005", "mixup swa fedsam"): "cifar10_a005_fedsam_swa_mixup",
        ("cifar10_a005", "fedasam feddyn"): "cifar10_a005_feddyn_fedasam",
        ("cifar10_a005", "resnet56 fedalign"): "cifar10_a005_fedalign_resnet56",
        ("cifar10_centralized", "swa fedsam"): "cifar10_centralized_fedsam_swa",
        ("idda_rainy_centralized", ""): "idda_rainy_centralized",
    }
    for (setting, methods), name in well_known.items():
        assert name_of(setting, methods.split()) == name
        assert name_of(setting, methods.split()[::-1]) == name
        again = compose(setting_file(setting), methods.split()).methods
        assert name_of(setting, again) == name


def test_a_users_file_keeps_its_name_and_its_values_win(write):
    path = write(
        "tuned.py",
        'setting = "idda_rainy_fedasam_swa"\n'
        "optim_wrapper = dict(rho=0.3)\naveraging = None\n"
        "folder = '{{ fileBasenameNoExtension }}'\n",
    )
    config = load_config(path, work_dir=None)
    assert config.work_dir == "work_dirs/tuned/seed0" and config.filename == str(path)
    assert config.optim_wrapper.rho == 0.3 and config.optim_wrapper.eta == 0.2
    assert config.averaging is None
    assert config.folder == "tuned"
    more = load_config(path, ["silobn"])
    assert more.experiment_name == "tuned_silobn" and more.optim_wrapper.rho == 0.3
    assert more.personal == ["@batchnorm.statistics"]
    child = write("child.py", 'setting = "tuned.py"\nmethods = ["fedsam"]\n')
    config = load_config(child)
    assert config.optim_wrapper.type == "SAMOptimWrapper" and config.optim_wrapper.rho == 0.3
    assert (config.methods, config.experiment_name) == (["fedsam"], "child")


def test_the_order_is_setting_methods_file_options(write):
    def rates(values: str) -> str:
        return f"optim_wrapper = dict(optimizer=dict({values}))\n"

    write("mine.py", SETTING + rates("a='setting', b='setting', c='setting', d='setting'"))
    write("methods/quick.py", rates("b='method', c='method', d='method'"))
    own = rates("c='file', d='file'")
    named = write("named.py", f'setting = "mine.py"\nmethods = ["quick"]\n{own}')
    alone = write("alone.py", f'setting = "mine.py"\n{own}')
    options = {"optim_wrapper.optimizer.d": "option"}
    for path, methods in ((named, []), (alone, ["quick"])):
        optimizer = load_config(path, methods, options=options).optim_wrapper.optimizer
        assert [optimizer[key] for key in "abcd"] == ["setting", "method", "file", "option"]


def test_a_config_without_a_setting_is_as_it_was(write):
    path = write("plain.py", SETTING)
    config = load_config(path)
    assert not config.keys() & {"setting", "methods"}
    assert (config.experiment_name, config.work_dir) == ("plain", "work_dirs/plain/seed0")
    assert load_config(path, seed=7).work_dir == "work_dirs/plain/seed7"
    assert load_config(path, options=["randomness.seed=5"]).work_dir == "work_dirs/plain/seed5"
    assert load_config(path, options=["randomness.seed=None"]).work_dir == "work_dirs/plain/seed0"
    config = load_config(path, ["fedprox"])
    assert config.algorithm == dict(type="FedProx", mu=0.1)
    assert config.experiment_name == "plain_fedprox"


def test_a_method_has_values_for_settings_and_for_what_inherits_them(mine, write):
    write(
        "methods/step.py",
        "optim_wrapper = dict(optimizer=dict(lr=1))\n"
        "values = {\n"
        "    'cifar10': dict(optim_wrapper=dict(optimizer=dict(lr=2))),\n"
        "    'cifar10_a1*': dict(optim_wrapper=dict(optimizer=dict(lr=3))),\n"
        "    'cifar10_a100': dict(optim_wrapper=dict(optimizer=dict(lr=4))),\n"
        "    'cifar10 + resnet18': dict(optim_wrapper=dict(optimizer=dict(lr=5))),\n"
        "    'demo_shapes': None,\n"
        "}\n",
    )

    def rate(setting: str, *methods: str) -> float:
        path = write("own.py", f'setting = "{setting}"\n')
        return compose(path, ["step", *methods]).optim_wrapper.optimizer.lr

    assert compose(mine, ["step"]).optim_wrapper.optimizer.lr == 1
    assert rate("cifar10_a0") == 2  # of a file that it inherits
    assert rate("cifar10_a100") == 4  # a name wins over a pattern
    assert rate("cifar10_a0", "resnet18") == rate("cifar10_a100", "resnet18") == 5
    with pytest.raises(ConfigError, match="methods: step does not apply to demo_shapes"):
        rate("demo_shapes")
    row = '"cifar10_a00*": dict(), "cifar10_a0*": dict()'
    write("methods/step.py", f"algorithm = dict(type='A')\nvalues = {{{row}}}\n")
    with pytest.raises(ConfigError, match=r"step\.py: values: cifar10_a00\* and cifar10_a0\* both"):
        rate("cifar10_a005")
    write("methods/step.py", "values = {'cifar10_a0': dict(algorithm=dict(type='A'))}\n")
    with pytest.raises(ConfigError, match="methods: step does not apply to cifar10_a005"):
        rate("cifar10_a005")  # sets nothing but in cifar10_a0


def test_nothing_of_a_methods_own_keys_stays(mine):
    config = compose(mine, ["fedsam", "cutout", "resnet18"])
    assert config.experiment_name == "mine_fedsam_cutout_resnet18"
    assert not config.keys() & {"slot", "task", "needs", "append", "values"}
    assert "methods" not in compose(mine)


def test_a_method_of_ones_own_in_ten_lines(mine, write, tmp_path, monkeypatch):
    write("methods/topk.py", 'slot = "algorithm"\nalgorithm = dict(_delete_=True, type="TopK")\n')
    assert compose(mine, ["topk", "swa"]).algorithm == dict(type="TopK")
    assert name_of(mine, ["swa", "topk"]) == "mine_topk_swa"
    with pytest.raises(ConfigError, match="scaffold and topk"):
        compose(mine, ["topk", "scaffold"])
    write("elsewhere/topk.py", 'slot = "algorithm"\nalgorithm = dict(keep=0.2)\n')
    assert compose(mine, ["elsewhere/topk.py"]).algorithm.keep == 0.2
    write("beside.py", 'slot = "algorithm"\nalgorithm = dict(keep=0.3)\n')
    assert compose(mine, ["beside"]).algorithm.keep == 0.3
    monkeypatch.chdir(tmp_path / "elsewhere")
    write("elsewhere/beside.py", 'slot = "algorithm"\nalgorithm = dict(keep=0.4)\n')
    assert compose(mine, ["beside"]).algorithm.keep == 0.3  # not the current folder's
    write("methods/slotless.py", 'algorithm = dict(_delete_=True, type="TopK")\n')
    assert name_of(mine, ["slotless", "swa"]) == "mine_swa_slotless"
    other = setting_file("cifar10_a0")
    with pytest.raises(ConfigError, match="unknown 'camvid'"):  # a setting is no method
        compose(other, ["camvid"])
    assert compose(other, ["topk.py"]).algorithm.keep == 0.2
    assert name_of(other, ["topk.py"]) == "cifar10_a0_topk"
    # in a config of one's own, found beside it
    path = write("own.py", 'setting = "cifar10_a0"\nmethods = ["elsewhere/topk.py", "swa"]\n')
    assert compose(path).algorithm.keep == 0.2


def test_the_later_method_without_a_slot_wins_and_lists_grow(mine, write):
    write("methods/slow.py", "optim_wrapper = dict(optimizer=dict(lr=0.01))\n")
    write(
        "methods/fast.py",
        "optim_wrapper = dict(optimizer=dict(lr=1.0))\n"
        'append = {"custom_hooks": [dict(type="Second")]}\n',
    )
    config = compose(mine, ["slow", "fast"])
    assert config.optim_wrapper.optimizer.lr == 1.0
    assert [hook.type for hook in config.custom_hooks] == ["First", "Second"]
    assert compose(mine, ["fast", "slow"]).optim_wrapper.optimizer.lr == 0.01
    assert name_of(mine, ["fast", "slow", "swa"]) == "mine_swa_fast_slow"


def test_the_order_of_methods_makes_no_difference(write):
    own = str(write("rho.py", "optim_wrapper = dict(rho=0.5)\n"))
    orders = itertools.permutations(["fedgloss_sam", "resnet18", "fedalign", own])
    made = [compose(setting_file("cifar10_a0"), order).to_dict() for order in orders]
    assert made == made[:1] * 24 and made[0]["optim_wrapper"]["rho"] == 0.5


def test_imports_of_all_parts_are_kept(mine, write):
    write("methods/one.py", 'custom_imports = dict(imports=["json"])\n')
    write("methods/two.py", 'custom_imports = dict(imports=["ast"])\n')
    assert compose(mine, ["one", "two"]).custom_imports.imports == ["json", "ast"]
    # those of a config's bases and methods, too, whatever it imports itself
    base = 'custom_imports = dict(imports=["csv", "ast"])\n'
    write("base.py", f'setting = "mine.py"\n{base}')
    own = 'custom_imports = dict(imports=["string"])\n'
    path = write("own.py", f'setting = "base.py"\nmethods = ["one"]\n{own}')
    assert compose(path, ["two"]).custom_imports.imports == ["json", "ast", "csv", "string"]
    given = load_config(path, options=["custom_imports.imports=['bisect', 'csv']"])
    assert given.custom_imports.imports == ["json", "csv", "ast", "string", "bisect"]
    path = write("alone.py", f'setting = "base.py"\n{own.replace("dict(", "dict(_delete_=True, ")}')
    assert compose(path).custom_imports.imports == ["string"]


@pytest.mark.parametrize("imports", ['"json"', '("json",)', "None"])
def test_imports_are_a_list_of_names(mine, write, imports):
    text = f"import json\ncustom_imports = dict(imports={imports})\n"
    write("methods/wrong.py", f'_base_ = "nothing.py"\n{text}')
    write("methods/nothing.py", "")
    path = write("own.py", f'setting = "mine.py"\n{text}')
    for config, methods in ((path, []), (mine, ["wrong"])):
        with pytest.raises(
            ConfigError, match=r"\.py: custom_imports\.imports: must be a list of mod"
        ):
            compose(config, methods)
    with pytest.raises(
        ConfigError, match=r"custom_imports\.imports: must be a list of module names"
    ):
        import_modules({"imports": "json"})


def test_files_of_a_users_own_are_executed_once_a_load(write):
    executed = write("executed", "")

    def noting(name: str) -> str:
        return f"__note = open({str(executed)!r}, 'a').write('{name} ')\n"

    write("mine.py", SETTING + noting("setting"))
    write("methods/slow.py", "optim_wrapper = dict(optimizer=dict(lr=0.01))\n" + noting("slow"))
    path = write("own.py", 'setting = "mine.py"\nmethods = ["slow"]\n' + noting("own"))
    config = load_config(path, ["swa"])
    assert config.optim_wrapper.optimizer.lr == 0.01 and config.averaging.type == "SWA"
    assert sorted(executed.read_text().split()) == ["own", "setting", "slow"]


def test_only_the_folder_of_a_config_has_methods_of_ones_own(write):
    """What lies above it, where downloads may be, is never executed."""
    hostile = 'raise RuntimeError("executed")\n'
    for name in ("methods/fedprox.py", "methods/mine/fedprox.py", "fedprox.py", "methods/other.py"):
        write(name, hostile)
    path = write("project/mine.py", SETTING)
    assert compose(path, ["fedprox"]).algorithm == dict(type="FedProx", mu=0.1)
    with pytest.raises(ConfigError, match="unknown 'other'"):
        compose(path, ["other"])


def test_a_module_in_place_of_a_method_or_config_is_refused_unread(mine, write):
    text = "from pathlib import Path\n\n\nclass Clipped(Path):\n    folder = Path(1)\n"
    path = write("clipped.py", text)
    words = (
        r"clipped\.py: defines the class Clipped, .*custom_imports = dict\(imports=\[.clipped.\]\)"
    )
    for config, methods in ((mine, [str(path)]), (path, [])):
        with pytest.raises(ConfigError, match=words):
            compose(config, methods)


def test_what_contradicts_is_refused_with_both_names():
    for setting, methods, names in (
        ("cifar10_a0", "scaffold fedprox", ("scaffold", "fedprox")),
        ("cifar10_a0", "swa wima", ("swa", "wima")),
        ("cifar10_a0", "fedsam fedasam", ("fedsam", "fedasam")),
        ("cifar10_a0", "fedspeed fedasam", ("fedspeed", "fedasam")),
        ("cifar10_a0", "fedgloss_sam fedavgm", ("fedgloss_sam", "fedavgm")),
        ("cifar10_a0", "silobn resnet18", ("silobn", "resnet18")),
        ("cifar10_a0", "resnet18 silobn", ("silobn", "resnet18")),
        ("cifar10_a0", "silobn", ("silobn", "cifar10_a0", "(no BatchNorm)")),
        ("cifar10_a0", "fedalign", ("fedalign", "cifar10_a0")),
        ("idda_rainy", "mixup", ("mixup", "idda_rainy")),
        ("landmarks", "cutout", ("cutout", "landmarks")),
        ("mnist_a0", "resnet20", ("resnet20", "mnist_a0")),
        ("idda_rainy", "resnet18", ("resnet18", "idda_rainy", "only for classification")),
        ("cifar10_a0", "lab", ("lab", "cifar10_a0", "(only for segmentation)")),
        ("cifar10_centralized", "scaffold", ("scaffold", "cifar10_centralized")),
    ):
        with pytest.raises(ConfigError, match="methods: ") as caught:
            compose(setting_file(setting), methods.split())
        assert all(name in str(caught.value) for name in names), caught.value


@pytest.mark.parametrize("kinds", [["IoUMetric", "DiceMetric", "BoundaryIoU"], ["DiceMetric"]])
def test_any_metric_of_segmentation_says_what_the_task_is(write, kinds):
    metrics = [{"type": kind} for kind in kinds]
    text = f'setting = "demo_weather"\nval_evaluator = {metrics}\n'
    own = write("own.py", text)
    assert compose(own, ["dinov2_small"]).model.type == "Segmentor"
    for name in ("resnet18", "fedalign"):
        with pytest.raises(ConfigError, match=rf"methods: {name} does not apply.*{kinds[0]}"):
            compose(own, [name])
    own = write(
        "other.py", text.replace("demo_weather", "demo_shapes").replace(kinds[0], "Accuracy")
    )
    with pytest.raises(ConfigError, match=r"methods: dice does not apply.*'Accuracy'"):
        compose(own, ["dice"])


def test_wrong_names_are_said_with_what_there_is(mine, write, monkeypatch):
    for methods, expected in (
        (["fedasan"], ["methods", "'fedasan'", "'fedasam'", f"fedseg list {mine}"]),
        (["sam"], ["methods", "'sam'", "'fedsam'"]),
        (["asam"], ["methods", "'asam'", "'fedasam'"]),
        (["nowhere.py"], ["methods", "nowhere.py"]),
        (["bad"], ["bad.py", "slot", "'averages'", "average"]),
        (["needy"], ["needy.py", "needs", "'batch'", "batchnorm"]),
        (["tasked"], ["tasked.py", "task", "'detection'", "segmentation"]),
        (["broken"], ["broken.py", "SyntaxError"]),
        (["scalar"], ["scalar.py", "type"]),
    ):
        write("methods/bad.py", 'slot = "averages"\n')
        write("methods/needy.py", 'needs = "batch"\n')
        write("methods/tasked.py", 'task = "detection"\n')
        write("methods/broken.py", "slot = \n")
        write("methods/scalar.py", "model = dict(type=dict(a=1))\n")
        with pytest.raises(ConfigError) as caught:
            compose(mine, methods)
        assert all(word in str(caught.value) for word in expected), caught.value
    with pytest.raises(ConfigError, match=r"cifar10_a01: .*'cifar10_a0"):
        name_of("cifar10_a01", [])
    monkeypatch.syspath_prepend(write("lacks.py", "import no_such").parent)
    for name in ("no_such", "lacks"):
        path = write(f"from_{name}.py", f"{SETTING}custom_imports = dict(imports=['{name}'])\n")
        told = rf"from_{name}.py: custom_imports: .*'no_such': put it into {path.parent}"
        with pytest.raises(ConfigError, match=told):
            compose(path)
    path = write("lonely.py", SETTING + 'methods = ["swa"]\n')
    with pytest.raises(ConfigError, match=r"methods: .*setting = NAME"):
        compose(path)


def test_values_without_a_text_of_their_own_are_inherited(mine, write):
    more = (
        'timeout = float("inf")\nnothing = [float("nan"), ("{{ fileBasename }}", Path("a"), str)]\n'
    )
    base = write("odd.py", f"from pathlib import Path\n{SETTING}{more}")
    path = write("own.py", f'setting = "{base.name}"\nmethods = ["swa"]\n')
    config = compose(path)
    assert config.averaging.type == "SWA" and config.timeout == float("inf")
    assert repr(config.nothing) == repr(compose(base).nothing)


def test_a_mistake_above_methods_names_the_users_file(mine, write):
    path = write(
        "own.py", 'setting = "mine.py"\nmethods = ["swa"]\naveraging = dict(cycle=dict(a=1))\n'
    )
    with pytest.raises(ConfigError, match=rf"^{path}: .*cycle"):
        compose(path)


def test_the_copy_in_a_work_dir_is_complete_and_reloads(tmp_path):
    """It composes nothing: what it was made of may be gone."""
    config = load_config(CONFIGS / "demo.py", ["lab"], work_dir=tmp_path)
    assert config.experiment_name == "demo_lab"
    write_config(config, "demo_lab")
    again = load_config(tmp_path / "demo_lab.py", work_dir=tmp_path)
    assert config_digest(complete_config(again)) == config_digest(complete_config(config))


def test_a_setting_and_its_file_are_one_experiment():
    """So that a run that was started by one can be resumed by the other."""
    file = complete_config(load_config(CONFIGS / "cifar10_a005_fedasam_swa.py"))
    given = complete_config(load_config(setting_file("cifar10_a005"), ["swa", "fedasam"]))
    assert config_digest(file) == config_digest(given)
    file.pop("setting"), file.pop("methods")
    assert config_digest(file) == config_digest(given)


def test_each_method_counts_once():
    composition = Composition(CONFIGS / "idda_rainy_fedasam_swa.py", ["fedasam", "swa"])
    assert composition.method_names == ["fedasam", "swa"]
    assert composition.name == "idda_rainy_fedasam_swa"


def test_a_config_or_a_base_in_yaml_is_refused_unread(tmp_path):
    mark = tmp_path / "executed"
    (tmp_path / "base.yaml").write_text(f"a: !!python/object/apply:os.mkdir ['{mark}']\n")
    (tmp_path / "own.py").write_text("_base_ = 'middle.py'\n")
    (tmp_path / "middle.py").write_text("_base_ = ['base.yaml']\n")
    for name in ("base.yaml", "own.py"):
        with pytest.raises(ConfigError, match=r"base\.yaml"):
            compose(tmp_path / name)
    assert not mark.exists()


def test_a_config_with_imports_of_its_own_keeps_its_custom_imports(tmp_path):
    (tmp_path / "own_part_of_a_config.py").write_text("LOADED = True\n")
    path = tmp_path / "mine.py"
    path.write_text('import numpy\ncustom_imports = dict(imports=["own_part_of_a_config"])\n')
    sys.path.insert(0, str(tmp_path))
    try:
        compose(path)
    finally:
        sys.path.remove(str(tmp_path))
    assert sys.modules.pop("own_part_of_a_config").LOADED
    path.write_text("import numpy\nnumber = numpy.int64(2)\n")
    assert compose(path).number == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [("setting", 3), ("methods", [3]), ("_base_", ("a", 3))],
)
def test_keys_of_a_composition_have_their_types(tmp_path, key, value):
    path = tmp_path / "mine.py"
    path.write_text(f"{key} = {value!r}\n")
    with pytest.raises(ConfigError, match=rf"mine\.py: {key}"):
        compose(path)


def test_bases_are_found_from_anywhere(tmp_path):
    own = tmp_path / "own.py"
    own.write_text('setting = "idda_rainy"\nmethods = ["fedasam", "swa"]\n')
    given = compose(setting_file("idda_rainy"), ["fedasam", "swa"])
    assert compose(own).to_dict() == {**given.to_dict(), "experiment_name": "own"}
    for name in ("idda_rany", "IDDA_Rainy"):
        with pytest.raises(ConfigError, match=rf"{name}.*'idda_rainy'"):
            setting_file(name)
    lost = tmp_path / "lost.py"
    for line, words in (
        ('_base_ = "nothing.py"', r"_base_: .*nothing\.py: does not exist$"),
        ('_base_ = "fedseg::settings/demo_shapes.py"', '_base_: .*setting = "demo_shapes"$'),
        ('setting = "demo_shape"', "setting: .*did you mean 'demo_shapes'"),
        ('setting = "nothing.py"', "setting: .*'nothing.py'"),
        ('setting = "lost.py"', r"setting: names itself, through .*lost\.py$"),
        ('_base_ = "lost.py"', r"_base_: inherits itself, through .*lost\.py$"),
    ):
        lost.write_text(f"{line}\n")
        with pytest.raises(ConfigError, match=rf"lost\.py.*{words}"):
            compose(lost)


def test_the_first_mistake_in_methods_is_told():
    with pytest.raises(ConfigError, match=r"'fedasan'.*'fedasam'"):
        load_config("idda_rainy", ["fedasan", "swaa"])
    with pytest.raises(ConfigError, match="fedasam and fedsam contradict"):
        load_config("cifar10_a0", ["swa", "wima", "fedsam", "fedasam"])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("dict(type='RayExecutor', num_workers=2)", {"type": "RayExecutor", "num_workers": 2}),
        ("{'type': 'SGD', 'betas': (0.9, 0.99)}", {"type": "SGD", "betas": (0.9, 0.99)}),
        ("[dict(mean=[1]),dict(type='Crop')]", [{"mean": [1]}, {"type": "Crop"}]),
    ],
)
def test_an_option_may_be_a_dict_or_a_list_of_dicts(option, value):
    config = load_config("idda_rainy", options=[f"executor.options={option}"])
    assert config.executor.options == value


@pytest.mark.parametrize(
    "value",
    ["dict(...)", "dict(type=RayExecutor)", "dict(type='a'", "[dict(1)]", "dict(**{'a': 1})"],
)
def test_an_option_that_is_no_dict_after_all_is_refused(value):
    with pytest.raises(ConfigError, match=r"^--cfg-options: executor: must be .*dict\(type='SGD'"):
        load_config("idda_rainy", options=[f"executor={value}"])


def test_workers_keep_the_other_options_of_the_executor():
    for option in ("executor.address=auto", "executor=dict(type='RayExecutor', address='auto')"):
        config = load_config("idda_rainy", options=[option], workers=2)
        assert config.executor == {"type": "RayExecutor", "num_workers": 2, "address": "auto"}


@pytest.mark.parametrize("gpus", [0, 4])
def test_automatic_workers_are_one_for_each_gpu(monkeypatch, gpus):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    config = load_config("idda_rainy", options=["executor.type=RayExecutor"], workers="auto")
    assert config.executor == ({"type": "RayExecutor", "num_workers": 4} if gpus else None)
    with pytest.raises(ConfigError, match=r"^--workers: must be a number if executor\.address"):
        load_config("idda_rainy", options=["executor.address=auto"], workers="auto")


HARDER = "val_dataloader = dict(unseen=dict(dataset=dict(users='harder')))\n"
RAINY = "setting = 'idda_rainy'\n"


def test_a_config_that_changes_the_test_sets_of_training_changes_those_of_the_test(write):
    metric = "val_evaluator = dict(prefix='own')\n"
    base = write("base.py", RAINY + HARDER + metric)
    own = write("own.py", f"setting = '{base.name}'\nmethods = ['fedasam', 'swa']\n")
    config = load_config(own, options=["val_dataloader.seen.batch_size=3"])
    assert config.test_dataloader == config.val_dataloader
    assert config.test_dataloader.unseen.dataset.users == "harder"
    assert config.test_dataloader.seen.batch_size == 3
    assert config.test_evaluator == config.val_evaluator and config.test_evaluator.prefix == "own"


@pytest.mark.parametrize("place", ["the same file", "a file below", "the command line"])
def test_test_sets_that_a_config_sets_itself_stay(write, place):
    other, options = "test_dataloader = dict(unseen=dict(batch_size=5))\n", []
    if place == "the same file":
        path = write("own.py", RAINY + HARDER + other)
    elif place == "a file below":
        write("base.py", RAINY + other)
        path = write("own.py", "setting = 'base.py'\n" + HARDER)
    else:
        path = write("own.py", RAINY)
        options = ["val_dataloader.unseen.dataset.users=harder", "test_dataloader.seen.drop_last=1"]
    config = load_config(path, options=options)
    assert config.val_dataloader.unseen.dataset.users == "harder"
    assert config.test_dataloader.unseen.dataset.users == "test_user_diff_domain"


def test_a_run_without_evaluation_has_test_sets():
    config = load_config("idda_rainy", options=["val_dataloader=None", "val_evaluator=None"])
    assert config.val_dataloader is None and set(config.test_dataloader) == {"unseen", "seen"}
    assert complete_config(config).test_evaluator.type == "IoUMetric"


def test_a_dict_under_two_names_replaces_both(mine, write):
    path = write(
        "own.py",
        "setting = 'mine.py'\nmodel = dict(_delete_=True, type='Small')\n"
        "client_sampler = model\nmethods = ['fedavg']\n",
    )
    config = compose(path)
    assert config.model == config.client_sampler == dict(type="Small")
