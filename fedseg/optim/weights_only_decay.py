"""Weight decay on weights alone, whatever the learning rates of the parameters."""

from mmengine.optim import DefaultOptimWrapperConstructor, OptimWrapper
from torch import nn

from fedseg.registry import OPTIM_WRAPPER_CONSTRUCTORS

NORMS = (
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.SyncBatchNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
    nn.GroupNorm,
    nn.LayerNorm,
)


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class WeightsOnlyDecay(DefaultOptimWrapperConstructor):
    """MMEngine's constructor without weight decay on biases and normalization layers.

    MMEngine's ``norm_decay_mult`` and ``bias_decay_mult`` leave out the parameters that a key of
    ``custom_keys`` selects, such as those of heads with another learning rate. Here they have none
    either.

    Args:
        optim_wrapper_cfg, paramwise_cfg: as in MMEngine.
    """

    def __call__(self, model: nn.Module) -> OptimWrapper:
        wrapper = super().__call__(model)
        without_decay = biases_and_norms(model)
        for group in wrapper.optimizer.param_groups:  # one for each parameter
            (parameter,) = group["params"]
            if any(parameter is other for other in without_decay):
                group["weight_decay"] = 0.0
        return wrapper


def biases_and_norms(model: nn.Module) -> list[nn.Parameter]:
    """The biases of all layers, and the scales of normalization layers."""
    parameters = []
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if name == "bias" or isinstance(module, NORMS):
                parameters.append(parameter)
    return parameters
