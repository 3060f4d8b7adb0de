"""The time that a run still takes, from rounds and evaluations of known cost."""

import math

import pytest

from fedseg.hooks.progress_time import TimeLeft, clock

ROUNDS, EVERY, WINDOW = 40, 10, 8  # evaluated every 10 rounds, and every 2 of the last 8
ROUND, PREDICTION = 3.0, 0.5  # seconds


def predictions(round_: int) -> int:
    """Of the evaluation after a round; the last one has a test set of its own."""
    if round_ == ROUNDS:
        return 100
    return 20 if round_ % EVERY == 0 or (round_ > ROUNDS - WINDOW and round_ % 2 == 0) else 0


def test_it_is_exact_where_rounds_and_evaluations_cost_what_they_did():
    left = TimeLeft(ROUNDS, predictions)
    for done in range(ROUNDS):
        truth = sum(ROUND + PREDICTION * predictions(r) for r in range(done + 1, ROUNDS + 1))
        seconds, complete = left.seconds(ROUNDS - done, left.predictions_after(done))
        if done >= EVERY:
            assert complete and seconds == pytest.approx(truth)
        elif done:  # no evaluation was seen yet
            assert not complete and seconds == pytest.approx(ROUND * (ROUNDS - done))
        left.add_round(ROUND)
        left.add_evaluation(predictions(done + 1), PREDICTION * predictions(done + 1))
    assert left.seconds(0, 0) == (0.0, True)


def test_in_the_first_round_the_present_pace_is_all_there_is():
    left = TimeLeft(10, lambda round_: 0)
    assert left.seconds(10, 0) == (math.inf, True)
    assert left.seconds(9.75, 0, round_pace=4.0) == (39.0, True)
    left.add_round(2.0)
    assert left.seconds(9, 0, round_pace=4.0) == (18.0, True)


def test_in_the_first_evaluation_its_own_pace_counts():
    left = TimeLeft(2, lambda round_: 10)
    left.add_round(1.0)
    assert left.seconds(1, 18) == (1.0, False)
    assert left.seconds(1, 18, prediction_pace=0.5) == (10.0, True)
    left.add_evaluation(10, 20.0)
    assert left.seconds(1, 10, prediction_pace=0.5) == (21.0, True)


def test_only_the_newest_rounds_count():
    left = TimeLeft(100, lambda round_: 0, newest=2)
    for seconds in (100.0, 1.0, 2.0):
        left.add_round(seconds)
    assert left.seconds(10, 0) == (15.0, True)


def test_an_evaluation_without_predictions_teaches_nothing():
    left = TimeLeft(2, lambda round_: 10)
    left.add_round(1.0)
    left.add_evaluation(0, 5.0)
    assert left.seconds(1, 10) == (1.0, False)


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00:00"), (3725.6, "1:02:06")])
def test_a_time_is_written_as_hours_minutes_seconds(seconds, text):
    assert clock(seconds) == text
