"""Attacks against releases of made tables, beside what no attacker can exceed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import conspectus as cs
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.suggestions import did_you_mean
from conspectus.whole_numbers import MOST_TURNS, SEED, is_seed, whole

from .attackers import AttackError
from .targets import TARGETS, TIMES

MECHANISMS = ("laplace", "gaussian", "projection", "mwem", "boosting")
"""Who is attacked unless told: plain noise of both kinds, and three that answer with one table."""
EPSILONS = (0.1, 1.0, 10.0, 100.0, 1000.0)
DELTA = 1e-6
RUNS = 4


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """How an attack on releases of made tables went.

    Attributes:
        attack: "differencing", "exhaustive", "linear" or "membership".
        mechanism: Who released.
        epsilon: The ε that was promised.
        delta: The δ that was promised.
        success: The share of right guesses; one half is chance. None where the mechanism refused to release.
        bound: What the promise allows to any attacker whatsoever, on average.
        guesses: How many guesses there were.
        reason: Why nothing was released, where it was not.

    Example:
        >>> (found,) = cs.attacks.run(["laplace"], epsilons=[1.0], attacks=["exhaustive"], runs=1)
        >>> found.guesses, round(found.bound, 3)
        (8, 0.731)
    """

    attack: str
    mechanism: str
    epsilon: float
    delta: float
    success: float | None
    bound: float
    guesses: int
    reason: str = ""

    @property
    def deviation(self) -> float:
        """The standard deviation that chance alone gives to the success, at most."""
        return 0.5 / math.sqrt(max(self.guesses, 1))


def success_bound(epsilon: float, delta: float = 0.0) -> float:
    """The largest share of right guesses about a fair coin of one unit that a promise allows to anybody.

    An attacker who says "yes" with probability p on the one table and q on the other has p ≤ e^ε·q + δ, and the same
    for "no". So (p + 1 − q)/2 is at most (e^ε + δ)/(1 + e^ε), whatever else the attacker knows, and however clever.

    Args:
        epsilon: The ε that is promised to one unit, replaced by another.
        delta: The δ.

    Returns:
        A probability from 1/2 on.

    Raises:
        AttackError: ε is below 0, or δ is not a probability.

    Example:
        >>> round(cs.attacks.success_bound(1.0), 3)
        0.731
        >>> cs.attacks.success_bound(0.0)
        0.5
    """
    if not epsilon >= 0 or not 0 <= delta <= 1:
        raise AttackError("an epsilon is 0 or more, and a delta a probability")
    share = math.exp(-epsilon) if epsilon < 700 else 0.0
    return min(1.0, (1 + delta * share) / (1 + share))


def run(
    mechanisms: Sequence[str] = MECHANISMS,
    *,
    epsilons: Sequence[float] = EPSILONS,
    attacks: Sequence[str] = tuple(TARGETS),
    delta: float = DELTA,
    runs: int = RUNS,
    public_seed: int = 0,
    progress: Callable[[str, int, int | None], None] | None = None,
    **settings: Any,
) -> Iterator[AttackResult]:
    """Attack releases of made tables: each mechanism at each ε, by each attack, beside the bound on any attacker.

    The tables are made with `public_seed` and belong to nobody. The releases are those of `cs.release`, noise and all.

    Args:
        mechanisms: Names of offline mechanisms.
        epsilons: The ε to try.
        attacks: Any of "differencing", "exhaustive", "linear" and "membership".
        delta: The δ of every release, save those of `laplace`, which are pure.
        runs: How many tables are made and attacked for each line.
        public_seed: Where the made tables come from.
        progress: Called as `progress(what, done, total)` while the work goes on.
        **settings: Settings of the mechanism, as in a release.

    Returns:
        The results, one by one as they are found.

    Raises:
        AttackError: There is no such attack, or `runs` is not a positive number.

    Example:
        >>> loud, quiet = cs.attacks.run(["laplace"], epsilons=[1000, 0.1], attacks=["linear"], runs=1)
        >>> loud.success > 0.95, quiet.success < 0.85
        (True, True)
    """
    for name in attacks:
        if name not in TARGETS:
            raise AttackError(
                f'no attack is called "{name}"{did_you_mean(name, list(TARGETS))}: choose among {", ".join(TARGETS)}'
            )
    if not whole(runs, most=MOST_TURNS):
        raise AttackError(f"runs, how many tables are attacked, is a positive integer, at most {MOST_TURNS:,}")
    if not is_seed(public_seed):
        raise AttackError(SEED)
    lines = [(name, mechanism, epsilon) for name in attacks for mechanism in mechanisms for epsilon in epsilons]
    return _results(lines, delta, runs, public_seed, progress, settings)


def _results(
    lines: Sequence[tuple[str, str, float]],
    delta: float,
    runs: int,
    public_seed: int,
    progress: Callable[[str, int, int | None], None] | None,
    settings: dict[str, Any],
) -> Iterator[AttackResult]:
    for number, (name, mechanism, epsilon) in enumerate(lines):
        if progress is not None:
            progress(f"{name} against {mechanism} at ε = {epsilon:g}", number, len(lines))
        yield _attacked(name, mechanism, epsilon, 0.0 if mechanism == "laplace" else delta, runs, public_seed, settings)


def _attacked(
    name: str, mechanism: str, epsilon: float, delta: float, runs: int, public_seed: int, settings: dict[str, Any]
) -> AttackResult:
    right: list[bool] = []
    reason = ""
    for turn in range(runs * TIMES.get(name, 1)):
        target = TARGETS[name](1000 * public_seed + 7 * turn)
        budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "neighbours": "replace"}
        try:
            with cs.open_table(target.rows, target.schema) as table:
                release = cs.release(table, target.workload, mechanism=mechanism, **budget, **settings)
        except NoMechanism as refusal:
            reason = str(refusal)
            break
        right += (target.guessed(release.answers * target.rows.num_rows) == target.secret).tolist()
    return AttackResult(
        attack=name,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=delta,
        success=None if reason else float(np.mean(right)),
        bound=success_bound(epsilon, delta),
        guesses=len(right),
        reason=reason,
    )
