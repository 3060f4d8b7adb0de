"""What ``import fedseg`` offers; its parts are imported when they are first used."""

from fedseg.api import Evaluation as Evaluation
from fedseg.api import Prepared as Prepared
from fedseg.api import Run as Run
from fedseg.api import evaluate as evaluate
from fedseg.api import load_config as load_config
from fedseg.api import prepare as prepare
from fedseg.api import read_run as read_run
from fedseg.api import train as train

__version__: str
