"""What to expect of `adaptive`, from public facts alone."""

from __future__ import annotations

from conspectus.mechanisms.mechanism import Claim, Problem

from .parameters import AdaptivePlan


def claim_of(problem: Problem, plan: AdaptivePlan, *, components: int, triples: bool) -> Claim:
    """Typical errors."""
    return Claim(mechanism="adaptive", expected_max=1e9, expected_mean=1e9, bound=None, memory=0, citations=())
