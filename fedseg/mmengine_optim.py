"""MMEngine's optimizers, imported before anything that imports them itself.

MMEngine offers an optimizer of transformers, which no config can name here. Where that package is
installed, as with the extra ``lora``, its import takes three seconds of every command. ``None`` in
``sys.modules`` is Python's way of saying that a module is not there.
"""

import sys

if "transformers" not in sys.modules:
    sys.modules["transformers"] = None
    try:
        import mmengine.optim  # noqa: F401
    finally:
        del sys.modules["transformers"]
