"""What ``import fedseg`` offers; its parts are imported when they are first used."""

from fedseg.api import Evaluation as Evaluation
from fedseg.api import Predictions as Predictions
from fedseg.api import Prepared as Prepared
from fedseg.api import Run as Run
from fedseg.api import browse as browse
from fedseg.api import evaluate as evaluate
from fedseg.api import export as export
from fedseg.api import load_config as load_config
from fedseg.api import new as new
from fedseg.api import predict as predict
from fedseg.api import prepare as prepare
from fedseg.api import profile as profile
from fedseg.api import read_run as read_run
from fedseg.api import share as share
from fedseg.api import train as train
from fedseg.api import verify as verify

__version__: str
