"""How much a reader has to pass: what is called between ``fedseg.train`` and SAM's first step.

Counted are files and functions below ``fedseg/`` that are entered, each once: what ``def`` and
``lambda`` make. Modules, bodies of classes and comprehensions are no functions.
"""

from pathlib import Path

from command_line import python

from fedseg.data_prep.synthetic_shapes import write_shapes

FILES, FUNCTIONS = 71, 407
SCRIPT = """
import inspect, os, sys
import fedseg
from fedseg.optim.sam import SAMOptimWrapper

ROOT = os.path.dirname(os.path.abspath(fedseg.__file__)) + os.sep
entered = set()

class Perturbed(BaseException):
    pass

def enter(frame, event, argument):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(ROOT):
        return
    is_function = code.co_flags & inspect.CO_NEWLOCALS and code.co_flags & inspect.CO_OPTIMIZED
    if is_function and (code.co_name == "<lambda>" or not code.co_name.startswith("<")):
        entered.add((code.co_filename, code.co_firstlineno, code.co_name))
    if code is SAMOptimWrapper.perturb.__code__:
        raise Perturbed

sys.setprofile(enter)
try:
    fedseg.train("demo_shapes", methods=["fedsam"])
except Perturbed:
    sys.setprofile(None)
    print(len({file for file, *_ in entered}), len(entered))
"""


def test_the_walk_to_the_first_perturbation_is_short(tmp_path: Path):
    write_shapes(tmp_path / "data" / "demo_shapes", train=1000, test=20)
    files, functions = map(int, python(SCRIPT, cwd=tmp_path).split())
    assert files <= FILES and functions <= FUNCTIONS, (files, functions)
