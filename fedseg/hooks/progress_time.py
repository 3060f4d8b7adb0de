"""How long a run still takes, from the rounds and the evaluations that it has made."""

import math
from collections import deque
from collections.abc import Callable
from itertools import accumulate


class TimeLeft:
    """An estimate from the means of the newest rounds and of the newest evaluations.

    Evaluations are rare at first and frequent at the end, and the last one may have images of its
    own. So rounds and evaluations are estimated apart, and an evaluation to come counts by the
    predictions that it makes.

    Args:
        rounds: of the whole run.
        predictions: how many the evaluation after a round makes; 0: the round is not evaluated.
        newest: rounds, and evaluations, that the means are taken over.
    """

    def __init__(self, rounds: int, predictions: Callable[[int], int], newest: int = 20) -> None:
        counts = [predictions(round_) for round_ in range(1, rounds + 1)]
        self._after = [*accumulate(reversed(counts), initial=0)][::-1]
        self._rounds: deque[float] = deque(maxlen=newest)
        self._evaluations: deque[tuple[int, float]] = deque(maxlen=newest)

    def add_round(self, seconds: float) -> None:
        """A round took this long, without its evaluation."""
        self._rounds.append(seconds)

    def add_evaluation(self, predictions: int, seconds: float) -> None:
        """An evaluation took this long."""
        if predictions:
            self._evaluations.append((predictions, seconds))

    def predictions_after(self, round_: int) -> int:
        """Predictions of the evaluations of all rounds after this one."""
        return self._after[round_]

    def seconds(
        self,
        rounds: float,
        predictions: int,
        round_pace: float | None = None,
        prediction_pace: float | None = None,
    ) -> tuple[float, bool]:
        """The time for what is left.

        Args:
            rounds: left, the present one with what is left of it.
            predictions: of evaluations that are left.
            round_pace, prediction_pace: seconds for one of them as it seems at present, for as
                long as none is finished.

        Returns:
            Seconds (infinite: nothing is known yet), and whether they cover everything: False
            while there are evaluations ahead and nothing is known about any.
        """
        if self._rounds:
            round_pace = sum(self._rounds) / len(self._rounds)
        elif round_pace is None:
            round_pace = math.inf
        if self._evaluations:
            made, taken = map(sum, zip(*self._evaluations, strict=True))
            prediction_pace = taken / made
        seconds = round_pace * rounds if rounds > 0 else 0.0
        return seconds + predictions * (prediction_pace or 0.0), not (
            predictions and prediction_pace is None
        )


def clock(seconds: float) -> str:
    """Seconds as ``h:mm:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
