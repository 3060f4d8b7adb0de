"""Federated algorithms: one file each, a client rule and a server rule."""

from typing import TYPE_CHECKING

from fedseg.sources import lazy_exports

if TYPE_CHECKING:
    from fedseg.algorithms.adabest import AdaBest
    from fedseg.algorithms.fedacg import FedACG
    from fedseg.algorithms.fedalign import FedAlign
    from fedseg.algorithms.fedavg import FedAvg
    from fedseg.algorithms.fedcm import FedCM
    from fedseg.algorithms.feddyn import FedDyn
    from fedseg.algorithms.fedgamma import FedGamma
    from fedseg.algorithms.fedgloss import FedGloSS, NaiveFedGloSS
    from fedseg.algorithms.fedprox import FedProx
    from fedseg.algorithms.fedsmoo import FedSMOO
    from fedseg.algorithms.fedspeed import FedSpeed
    from fedseg.algorithms.gradaug import GradAug
    from fedseg.algorithms.mime import MIME, MIMELite
    from fedseg.algorithms.moon import MOON
    from fedseg.algorithms.scaffold import SCAFFOLD
    from fedseg.core.algorithm import Algorithm
    from fedseg.core.local_loss import LocalLoss

__getattr__ = lazy_exports(__name__, __file__)
