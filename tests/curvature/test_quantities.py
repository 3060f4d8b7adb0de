"""The quantities of ``fedseg curvature``."""

from fedseg.commands import curvature as command
from fedseg.curvature.quantities import QUANTITIES
from fedseg.runs.curvature_files import VALUES


def test_every_quantity_is_offered_measured_and_read():
    assert set(command.QUANTITIES) == set(QUANTITIES) == set(VALUES)
