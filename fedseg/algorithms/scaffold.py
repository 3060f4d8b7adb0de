"""SCAFFOLD: control variates estimate each client's drift and correct its steps.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020,
algorithm 1 and equations 3 to 5, with option II of equation 4: a client's control variate is the
mean gradient of its last local training. Means are uniform over the participants, and a change of
one client's is 1/K of the server's. No code was released with the paper.

The difference ``c - c_k`` is taken before it meets the gradient: where ``c_k = c``, a step is
FedAvg's bit for bit.

The paper's clients run plain SGD. With local momentum ``(w - w_k)/(K_k eta)`` is several times the
mean gradient and the control variates grow from one participation to the next, see
:mod:`fedseg.algorithms.mean_gradient`; ``count_momentum`` is for that.
"""

from fedseg.algorithms.mean_gradient import check_optimizer, k_eta
from fedseg.config.arguments import Positive
from fedseg.core.aggregate import Aggregate
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Message, Update
from fedseg.core.server import Server
from fedseg.core.vectors import descend
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class SCAFFOLD(Algorithm):
    """Stochastic controlled averaging. Twice FedAvg's traffic: ``c`` down, ``c_k+ - c_k`` up.

    Args:
        eta_g: global step size.
        count_momentum: divide by the effective number of local steps instead of K_k, so that
            ``c_k`` is a mean gradient with momentum, too; no effect without momentum.
    """

    client_vectors = ("control",)
    server_vectors = ("control",)
    weightings = {"delta": "uniform", "control": "uniform"}

    def __init__(self, eta_g: Positive = 1.0, count_momentum: bool = False) -> None:
        self.eta_g = eta_g
        self.count_momentum = count_momentum

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        check_optimizer(local, type(self).__name__, self.count_momentum)

    def broadcast(self, server: Server) -> Message:
        return server.message(server.w, control=server.state["control"])

    def correct(self, client: Client) -> None:
        """``g - c_k + c`` (equation 3)."""
        client.grad.add_(client.extras["control"] - client.state["control"])

    def finish(self, client: Client) -> Update:
        """``c_k+ = c_k - c + (w - w_k)/(K_k eta)`` (equation 4)."""
        delta = client.delta()
        change = delta / k_eta(client, self.count_momentum) - client.extras["control"]
        client.state["control"] += change
        return Update({"delta": delta, "control": change})

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """``w <- w - eta_g mean_S(w - w_k)``, ``c <- c + 1/K sum_S (c_k+ - c_k)`` (equation 5)."""
        descend(server.w, self.eta_g * aggregate.mean("delta"))
        server.state["control"].add_(aggregate.total("control"), alpha=1 / server.num_clients)
