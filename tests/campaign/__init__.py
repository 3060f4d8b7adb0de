"""Two campaigns against the whole suite: damaged inputs, and runs that are killed and resumed.

``python -m tests.campaign --help`` says how to run them, and one case of them again.
"""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / name) for name in ("support", "oracles")]
