"""Every registry of fedseg: one a role, each a child of MMSegmentation's or MMEngine's.

With ``default_scope = 'fedseg'`` a name in a config is looked up here first, then in mmseg, then in
mmengine, so none of them needs a prefix. Roles that only federated training has (algorithms, client
samplers, partitions, executors) are roots of their own.

Each registry has a table of what the suite registers in it, and imports a module when a name of it
is asked for: to import all of them would take seconds.
"""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

from mmengine import registry as _mmengine
from mmengine.registry import Registry
from mmseg import registry as _mmseg

from fedseg.checks import shown
from fedseg.config.accepted import replacement_of
from fedseg.config.arguments import PLAIN, check_arguments
from fedseg.errors import DEBUG, ConfigError
from fedseg.names import did_you_mean


class LazyRegistry(Registry):
    """A registry that imports a module of the suite when a name of it is asked for.

    Args:
        role: what is registered, for messages.
        modules: what the suite registers here: module under ``fedseg`` -> names.
        parent: where other names are looked up.

    Attributes:
        modules: name -> module.
    """

    def __init__(
        self, role: str, modules: Mapping[str, Sequence[str]], parent: Registry | None = None
    ) -> None:
        super().__init__(role, parent=parent, scope="fedseg")
        self.modules: dict[str, str] = {}
        for module, names in modules.items():
            for name in names:
                self.modules[name] = f"fedseg.{module}"

    def _register_module(self, module: Any, module_name: Any = None, force: bool = False) -> None:
        """Register a class; one of the user's own after the suite's of its name, which is taken."""
        names = [module_name] if isinstance(module_name, str) else module_name
        for name in names or [getattr(module, "__name__", "")]:
            if name in self.modules and module.__module__ != self.modules[name]:
                import_module(self.modules[name])
        super()._register_module(module, module_name, force)

    def import_from_location(self) -> None:
        """Import every module of the suite that registers something here."""
        for module in self.modules.values():
            import_module(module)

    def get(self, key: str) -> Any:
        """The class of a name, or None; see :meth:`mmengine.registry.Registry.get`."""
        if key in self.modules:
            import_module(self.modules[key])
        chain: list[Registry] = [self]
        while chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        for imports in (False, True):  # most names need none, and they take seconds
            for registry in chain:
                if imports and registry is not self:
                    registry.import_from_location()
                if key in registry.module_dict:
                    return registry.module_dict[key]
        # for a name without dots MMEngine would import a file of that name, such as the config
        return super().get(key) if "." in key else None


def load_class(package: str, name: str, modules: Mapping[str, str]) -> Any:
    """The attribute of a package whose modules are imported when a name of them is used."""
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(modules[name]), name)


def _child(role: str, parent: Registry, modules: Mapping = MappingProxyType({})) -> LazyRegistry:
    return LazyRegistry(role, modules, parent)


RUNNERS = _child("runner", _mmseg.RUNNERS, {"runner.runner": ["FederatedRunner"]})
RUNNER_CONSTRUCTORS = _child("runner constructor", _mmseg.RUNNER_CONSTRUCTORS)
LOOPS = _child(
    "loop",
    _mmseg.LOOPS,
    {
        "engine.loop": ["FederatedTrainLoop"],
        "evaluation.loops": ["FederatedValLoop", "FederatedTestLoop"],
    },
)
HOOKS = _child(
    "hook",
    _mmseg.HOOKS,
    {
        "hooks.averaging": ["SWA", "WIMA"],
        "runner.checkpoint": ["FederatedCheckpointHook"],
        "runner.progress": ["ProgressHook"],
        "runner.trackers": ["TrackersHook"],
        "curvature.hook": ["CurvatureHook"],
        "report.pictures_hook": ["PicturesHook"],
    },
)
STRATEGIES = _child("strategy", _mmengine.STRATEGIES)

DATASETS = _child(
    "dataset",
    _mmseg.DATASETS,
    {
        "datasets.acdc": ["ACDCDataset"],
        "datasets.ade20k": ["ADE20KDataset"],
        "datasets.arrays": [
            "StoredImages",
            "CIFAR10Dataset",
            "CIFAR100Dataset",
            "MNISTDataset",
            "SyntheticShapesDataset",
            "FEMNISTDataset",
            "ShakespeareDataset",
        ],
        "datasets.bdd100k": ["BDD100KDataset"],
        "datasets.camvid": ["CamVidDataset"],
        "datasets.cityscapes": ["CityscapesDataset"],
        "datasets.corrupted": ["CIFAR10CDataset", "CIFAR100CDataset"],
        "datasets.fundus": ["FundusDataset"],
        "datasets.gta5": ["GTA5Dataset"],
        "datasets.idd": ["IDDDataset"],
        "datasets.idda": ["IDDADataset"],
        "datasets.joined": ["JoinedDataset"],
        "datasets.landmarks": ["LandmarksDataset"],
        "datasets.listed": ["ListedDataset"],
        "datasets.mapillary": ["MapillaryADataset", "MapillaryBDataset"],
        "datasets.mmsegmentation": ["MMSegDataset"],
        "datasets.photos": ["ImageFolderDataset"],
        "datasets.polyps": ["PolypsDataset"],
        "datasets.prostate": ["ProstateDataset"],
        "datasets.synthia": ["SynthiaDataset"],
        "datasets.voc": ["VOCDataset"],
    },
)
DATA_SAMPLERS = _child("data sampler", _mmseg.DATA_SAMPLERS)
TRANSFORMS = _child(
    "transform",
    _mmseg.TRANSFORMS,
    {
        "datasets.style": ["LABStyle", "CFSIStyle"],
        "datasets.transforms": [
            "RandomScaleCrop",
            "ResizeInput",
            "ResizeLabel",
            "RandomAreaCrop",
            "ChannelMeanJitter",
        ],
    },
)

MODELS = _child(
    "model",
    _mmseg.MODELS,
    {
        "models.bisenetv2": [
            "BiSeNetV2Segmentor",
            "FedDriveBiSeNetV2Segmentor",
            "FedDriveBiSeNetV2",
            "PixelShuffleHead",
        ],
        "models.cnn": ["CNN", "MNISTCNN", "FEMNISTCNN"],
        "models.encoders": ["TimmClassifier", "TimmSegmentation"],
        "models.losses": [
            "CrossEntropy",
            "OHEMCrossEntropy",
            "OhemCrossEntropy",
            "Focal",
            "Dice",
            "DiceCrossEntropy",
            "LovaszSoftmax",
        ],
        "models.lstm": ["CharLSTM"],
        "models.mobilenet": ["MobileNetV2GN"],
        "models.preprocessor": ["ImagePreprocessor"],
        "models.resnet": ["ResNet18", "ResNet18GN", "ResNet20GN", "ResNet56"],
        "models.segmentor": ["Segmentor", "TorchvisionSegmentation"],
        "models.unet": ["UNetSegmentor"],
    },
)
MODEL_WRAPPERS = _child("model wrapper", _mmseg.MODEL_WRAPPERS)
WEIGHT_INITIALIZERS = _child("weight initializer", _mmseg.WEIGHT_INITIALIZERS)

OPTIMIZERS = _child("optimizer", _mmseg.OPTIMIZERS)
OPTIM_WRAPPERS = _child(
    "optim wrapper",
    _mmseg.OPTIM_WRAPPERS,
    {"optim.local": ["OptimWrapper"], "optim.sam": ["SAMOptimWrapper", "ASAMOptimWrapper"]},
)
OPTIM_WRAPPER_CONSTRUCTORS = _child(
    "optim wrapper constructor",
    _mmseg.OPTIM_WRAPPER_CONSTRUCTORS,
    {"optim.weights_only_decay": ["WeightsOnlyDecay"]},
)
PARAM_SCHEDULERS = _child("parameter scheduler", _mmseg.PARAM_SCHEDULERS)

TASK_UTILS = _child("task util", _mmseg.TASK_UTILS)
METRICS = _child(
    "metric",
    _mmseg.METRICS,
    {
        "evaluation.dice": ["ForegroundDice"],
        "evaluation.metrics": ["Accuracy", "IoUMetric", "DiceMetric", "BoundaryIoU"],
    },
)
EVALUATOR = _child("evaluator", _mmseg.EVALUATOR)
VISUALIZERS = _child("visualizer", _mmseg.VISUALIZERS)
VISBACKENDS = _child("vis_backend", _mmseg.VISBACKENDS)
LOG_PROCESSORS = _child("log processor", _mmseg.LOG_PROCESSORS)
INFERENCERS = _child("inferencer", _mmseg.INFERENCERS)
FUNCTIONS = _child("function", _mmengine.FUNCTIONS)

ALGORITHMS = LazyRegistry(
    "algorithm",
    {
        "algorithms.adabest": ["AdaBest"],
        "algorithms.ditto": ["Ditto"],
        "algorithms.fedacg": ["FedACG"],
        "algorithms.fedavg": ["FedAvg"],
        "algorithms.fedcm": ["FedCM"],
        "algorithms.feddg_ga": ["FedDGGA"],
        "algorithms.feddyn": ["FedDyn"],
        "algorithms.fedgamma": ["FedGamma"],
        "algorithms.fedgloss": ["FedGloSS", "NaiveFedGloSS"],
        "algorithms.fedprox": ["FedProx"],
        "algorithms.fedrep": ["FedRep", "FedBABU"],
        "algorithms.fedsmoo": ["FedSMOO"],
        "algorithms.fedspeed": ["FedSpeed"],
        "algorithms.flexlora": ["FlexLoRA", "FedExLoRA"],
        "algorithms.mime": ["MIMELite", "MIME"],
        "algorithms.scaffold": ["SCAFFOLD"],
    },
)
SAMPLERS = LazyRegistry(
    "client sampler",
    {
        "runner.sampler": [
            "UniformSampler",
            "RoundSeededSampler",
            "PoissonSampler",
            "FixedSampler",
        ],
    },
)
PARTITIONS = LazyRegistry(
    "partition",
    {
        "partition.dirichlet": [
            "DirichletPartition",
            "DirichletClassPartition",
            "HomogeneousPartition",
            "PachinkoPartition",
            "SizePartition",
        ],
        "partition.natural": [
            "NaturalPartition",
            "SinglePartition",
            "FixedPartition",
            "ReleasedPartition",
        ],
        "partition.pixels": ["ClassHeterogeneous"],
    },
)
LOCAL_LOSSES = LazyRegistry(
    "local loss",
    {
        "local_losses.class_weights": ["ClassWeights"],
        "local_losses.fedalign": ["FedAlign"],
        "local_losses.fedseg": ["FedSeg"],
        "local_losses.gradaug": ["GradAug"],
        "local_losses.moon": ["MOON"],
        "local_losses.self_training": ["SelfTraining"],
    },
)
BATCH_TRANSFORMS = LazyRegistry(
    "batch transform",
    {"datasets.batch_transforms": ["RandomCrop", "RandomFlip", "Normalize", "Cutout", "Mixup"]},
)
CLIENT_DATA = LazyRegistry(
    "loader", {"loaders.resident": ["ResidentData"], "loaders.streaming": ["StreamingData"]}
)
EVALUATION_SETS = LazyRegistry(
    "loader", {"evaluation.sets": ["StreamingData", "ResidentData", "CorruptedData"]}
)
EXECUTORS = LazyRegistry(
    "executor", {"engine.executor": ["InProcessExecutor"], "parallel.executor": ["RayExecutor"]}
)
ATTACKS = LazyRegistry("attack", {"updates.attack": ["SignFlip", "LabelSwap"]})
COMPRESSIONS = LazyRegistry("compression", {"updates.compression": ["TopK", "Int8", "SignSGD"]})
PRIVACIES = LazyRegistry("privacy", {"updates.privacy": ["DPFedAvg"]})
AGGREGATES = LazyRegistry(
    "aggregate", {"updates.robust": ["CoordinateMedian", "TrimmedMean", "Krum"]}
)
SERVER_OPTIMIZERS = LazyRegistry(
    "server optimizer", {"optim.server": ["SGD", "Adam", "Yogi", "Adagrad", "Torch"]}
)


# what a constructor raises when it is injected something wrong
MISTAKES = (
    *(TypeError, ValueError, LookupError, AttributeError),
    *(ArithmeticError, AssertionError, RuntimeError),
)
SHOWN_NAMES = 30


def build(
    registry: Registry,
    config: Any,
    field: str,
    injected: Mapping[str, Any] | None = None,
    base: type = object,
    keys: Iterable[str] = (),
    **defaults: Any,
) -> Any:
    """Build a component from a config; a mistake in it is a ConfigError that names the field.

    Args:
        registry: where ``config["type"]`` is looked up.
        config: a dict with a ``type``; or the component itself, made in Python, which is returned.
        field: where the config stands, for the message, for example ``"algorithm"``.
        injected: arguments that the run sets, not the config.
        base: the class that it must be of.
        keys: of the config that are no arguments and were taken out of it; messages list them.
        defaults: arguments for keys that the config leaves out.
    """
    injected = injected or {}
    optional = (*keys, *defaults)
    check_component(registry, config, field, injected=injected, base=base, optional=optional)
    component = config
    if isinstance(config, PLAIN):
        component = _construct(registry, {**config, **injected}, defaults, field)
    if not isinstance(component, base):
        raise ConfigError(f"{field}.type: {type(component).__name__} is not a {base.__name__}")
    return component


def _construct(
    registry: Registry, config: dict[str, Any], defaults: dict[str, Any], field: str
) -> Any:
    """Call the class or function of a checked config; a mistake in there is a ConfigError."""
    try:
        return registry.build(config, default_args=defaults or None)
    except MISTAKES as error:
        reason = error if isinstance(error, TypeError | ValueError) else repr(error)
        message = f"{field}: {config['type']}: {reason} ({DEBUG}=1 shows where)"
        raise ConfigError(message) from error


def check_component(
    registry: Registry,
    config: Any,
    field: str,
    injected: Iterable[str] = (),
    base: type = object,
    optional: Iterable[str] = (),
) -> None:
    """Raise ConfigError unless a component's config has a known type and arguments that fit it.

    Nothing is built.

    Args:
        registry, config, field, base: as in :func:`build`.
        injected, optional: as in :func:`fedseg.config.arguments.check_arguments`.
    """
    if isinstance(config, PLAIN):
        cls = find_class(registry, config, field, base)
        options = {name: value for name, value in config.items() if name != "type"}
        check_arguments(cls, options, field, injected=injected, optional=optional)


def find_class(registry: Registry, config: Any, field: str, base: type = object) -> Any:
    """The class or function that a component's ``type`` means; arguments of :func:`build`."""
    if not isinstance(config, Mapping):
        raise ConfigError(f"{field}: must be a dict with a type, not {shown(config)}")
    kind = cls = config.get("type")
    if isinstance(kind, str):
        try:
            cls = registry.get(kind)
        except Exception:  # a name with dots is looked for as a module's, which fails in any way
            cls = None
    if cls is None:
        raise _unknown_type(registry, kind, field, base)
    if not callable(cls):
        raise ConfigError(f"{field}.type: must be a name, not {shown(kind)}")
    if inspect.isclass(cls) and not issubclass(cls, base):
        hint = replacement_of(cls.__name__)
        raise ConfigError(f"{field}.type: {cls.__name__} is not a {base.__name__}{hint}")
    return cls


def _unknown_type(registry: Registry, kind: str | None, field: str, base: type) -> ConfigError:
    registry.import_from_location()
    while not registry.module_dict and registry.parent is not None:
        registry = registry.parent  # the suite has none of its own
    names = sorted(
        name
        for name, cls in registry.module_dict.items()
        if base is object or (inspect.isclass(cls) and issubclass(cls, base))
    )
    known = ", ".join(names) or "none"
    if kind is None:
        return ConfigError(f"{field}.type: is missing; known: {known}")
    listed = f"; known: {known}" if len(names) <= SHOWN_NAMES else ""
    return ConfigError(
        f"{field}.type: unknown {registry.name} {kind!r}{did_you_mean(kind, names)}{listed}; "
        "a class of your own must be imported with custom_imports"
    )
