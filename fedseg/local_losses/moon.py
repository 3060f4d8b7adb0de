"""MOON: a local model's features stay near the global model's and away from its own earlier ones.

Li, He, Song, "Model-Contrastive Federated Learning", CVPR 2021, equation 3 and algorithm 1, which
changes the clients' loss and nothing else. Where the paper is silent:

- A client's first participation has no previous model, so no negative and no contrastive term. The
  released code does so in the first round, and gives clients that are first sampled later an
  untrained random network as their previous model. FedAlign's code gives them the initial global
  model. A received model as the previous one would be a term of constant value and zero gradient.
- The two fixed networks run without dropout and the like (eval mode), as in the released code.
  Their BatchNorm normalizes by the batch, as the trained network's does (unless that keeps a layer
  in eval mode), and no running statistics are read or changed; the released code reads each
  network's own running statistics, FedAlign's code takes the batch.
- "Global model" is what the client received, which other algorithms perturb or move (FedGloSS,
  FedACG).
"""

import torch.nn.functional as F
from torch import Tensor

from fedseg.config.arguments import NonNegative, Positive
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.forward import total_loss
from fedseg.core.local_loss import LocalLoss, full_precision
from fedseg.core.passes import outputs_at
from fedseg.local_losses.requirements import require_layers
from fedseg.registry import LOCAL_LOSSES

PREVIOUS = "moon_previous"


@LOCAL_LOSSES.register_module()
class MOON(LocalLoss):
    """``l_sup + mu l_con`` with ``l_con = -log(a / (a + b))``, the mean over a batch's images.

    ``a = exp(sim(z, z_glob) / tau)`` and ``b = exp(sim(z, z_prev) / tau)``: sim is the cosine
    between an image's features now and in the received model, or in the client's own model at the
    end of its last round. The features are what goes into the classifier: the paper projects them
    first (``model.projection=(256, 256)``).

    Each batch has two forward passes more than FedAvg's, and a client keeps one vector. SAM's
    second pass takes their features from the first one.

    Args:
        mu: weight of the contrastive term; 0 is plain training.
        tau: temperature.
    """

    def __init__(self, mu: NonNegative = 1.0, tau: Positive = 0.5) -> None:
        self.mu = mu
        self.tau = tau

    def setup(self, flat: FlatModel) -> None:
        require_layers(flat.model, self, ["features"], "a Classifier")

    def loss(self, client: Client) -> Tensor:
        previous = client.state.get(PREVIOUS)
        if self.mu == 0 or previous is None:
            return client.model_loss()
        outputs = client.model_layers()
        z = full_precision(outputs["features"])
        z_glob = client.once_per_batch("moon_received", lambda: _features(client, client.start))
        z_prev = client.once_per_batch(PREVIOUS, lambda: _features(client, previous))
        toward = F.cosine_similarity(z, z_glob, dim=1)
        away = F.cosine_similarity(z, z_prev, dim=1)
        # equation 3: -log(a / (a + b)) = log(1 + b / a)
        contrastive = F.softplus((away - toward) / self.tau).mean()
        return total_loss(outputs) + self.mu * contrastive

    def finish(self, client: Client) -> None:
        if self.mu > 0:
            client.state[PREVIOUS] = client.w.clone()


def _features(client: Client, w: Tensor) -> Tensor:
    """The batch's features in the network with parameters ``w``, float [B, D]."""
    return full_precision(outputs_at(client, w, "layers")["features"])
