"""What people read of an answer is possible, whichever mechanism gave it; programs get the numbers as they came."""

from __future__ import annotations

import re

import pytest

import conspectus as cs
from conspectus.privacy.events import Noise
from conspectus.releases.answer import Answer, answer_of
from conspectus.synopses.estimate import Estimate
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Total

ROWS = Total(value=1000.0, exact=True)


def both(count):
    """The same noisy count from a synopsis that is within 5, and from noise on the answer."""
    asked = cs.sparse([[1]])
    measured = NoisyAnswers(asked.domain, asked, [count], (Noise("laplace", 1.0),), ROWS)
    estimates = Estimate.within(count, 5.0, basis="guessed"), measured.estimate(asked, 0.95)
    return [answer_of(estimate, ROWS, 0.95, asked.query(0)) for estimate in estimates]


@pytest.mark.parametrize(("count", "shown", "about"), [(-4.0, "0.0000", "0"), (1003.0, "1.0000", "1,000")])
def test_nothing_impossible_is_shown(count, shown, about):
    for answer in both(count):
        assert answer.fraction == count / 1000
        assert answer.count == count
        assert answer.low <= answer.fraction <= answer.high
        said = str(answer)
        assert said.startswith(f"{shown} of the rows (about {about}) (noise made it {count / 1000:.4f}), 95% interval ")
        low, high = map(float, re.search(r"interval (\S+) to (\S+),", said).groups())
        assert 0 <= low <= float(shown) <= high <= 1


def test_what_is_possible_is_shown_as_it_is():
    for answer in both(47.0):
        assert str(answer).startswith("0.0470 of the rows (about 47), 95% interval 0.04")
    bare = Answer(fraction=-0.5, count=None, low=None, high=None, basis="unguaranteed", confidence=0.95)
    assert str(bare).startswith("0.0000 (noise made it -0.5000), no interval")
    assert str(Answer(fraction=-1e-7, count=-1e-4, low=-1e-7, high=0.1, basis="measured", confidence=0.9)) == (
        "0.0000 of the rows (about 0), 90% interval 0.0000 to 0.1000, measured"
    )
