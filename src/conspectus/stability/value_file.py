"""The file of single values: one zip of JSON, as that of a release, and back again.

It holds what was asked, the private acts and their outcomes, and the guarantee. Values, intervals and notes are not in
it: they follow from these, and are computed afresh when it is read. A file may have been changed by anyone. So its acts
must be, to the last fraction, the acts that publish such values, and cost no more than its guarantee says: all that
were planned, where it is an outcome which of them were needed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from conspectus.curator.acts import relation_of
from conspectus.curator.stable_statistics import LOG_STEPS, NO_SPREAD
from conspectus.data.schema import Schema
from conspectus.privacy import events as acts
from conspectus.privacy.events import (
    Event,
    ExponentialDraws,
    GaussianNoise,
    LaplaceNoise,
    Noise,
    NoisyMaxima,
    StableValue,
)
from conspectus.privacy.guarantee import LEAST, Budget, Guarantee
from conspectus.privacy.guarantee import MOST as MOST_EPSILON
from conspectus.privacy.kept_promises import keeps
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.subsample_results import SUM_STEPS, Listed
from conspectus.releases.answer import NEAREST
from conspectus.releases.release_file import VALUES
from conspectus.synopses import files

from .aggregated import Aggregated, AggregateError, aggregated
from .column_values import ColumnValue, column_median, column_mode, interquartile_range
from .value_plan import (
    CHOICES,
    MECHANISMS,
    Test,
    ValuePlan,
    Wanted,
    expected_choice,
    expected_mean,
    expected_tests,
)
from .value_planning import statistics_of

MOST = 1 << 62
"""No outcome is further from 0: counts have 64 bits."""

MISFIT = "its acts are not those that publish such values: get the file again"
COSTS_MORE = "its acts cost more than its guarantee says: get the file again"


def write_fields(path: Path, fields: Mapping[str, Any]) -> None:
    """Write the fields of released values, by name, as one file."""
    plan: ValuePlan = fields["plan"]
    manifest = {
        "schema": plan.wanted.schema.to_dict(),
        "guarantee": dataclasses.asdict(fields["guarantee"]),
        "events": [acts.to_json(event) for event in fields["events"]],
        "mechanism": plan.mechanism,
        VALUES: {
            "wanted": _wanted_json(plan.wanted),
            "within": plan.within,
            "outcomes": list(fields["outcomes"]),
            "confidence": fields["confidence"],
        },
    }
    files.write(path, manifest, None, {})


def read_fields(path: Path) -> dict[str, Any]:
    """The inverse of `write_fields`; raises `BadSynopsisFile` with one sentence."""
    contents = files.read(path)
    if VALUES not in contents.manifest:
        raise files.BadSynopsisFile(f"{path} holds a release of many answers: read it with cs.load")
    with files.faithful():
        manifest = contents.manifest
        schema = Schema.from_dict(manifest["schema"])
        guarantee, values = manifest["guarantee"], manifest[VALUES]
        promised = Guarantee(**{**guarantee, "warnings": tuple(guarantee["warnings"])})
        if promised.unit != str(schema.unit):
            raise files.BadSynopsisFile("it promises to others than its schema protects: get the file again")
        events = tuple(acts.from_json(event) for event in manifest["events"])
        if not events:
            raise files.BadSynopsisFile(COSTS_MORE)
        outcomes, confidence = tuple(values["outcomes"]), values["confidence"]
        if type(confidence) is not float or not NEAREST <= confidence <= 1 - NEAREST:
            raise files.BadSynopsisFile("it states no confidence between 0 and 1: get the file again")
        wanted = _wanted(schema, values["wanted"])
        plan = _plan(wanted, manifest["mechanism"], values["within"], promised, events, outcomes)
        if not keeps(promised, plan.declared or events, plan.relation, allowed="declared"):
            raise files.BadSynopsisFile(COSTS_MORE)
        _check(plan, outcomes)
        return {
            "plan": plan,
            "outcomes": outcomes,
            "confidence": confidence,
            "guarantee": promised,
            "events": events,
        }


def _wanted_json(wanted: Wanted) -> dict[str, Any]:
    """What was asked, but for the function of somebody's own: a file holds no code."""
    if isinstance(wanted, ColumnValue):
        return {"kind": wanted.kind, "column": wanted.column, "bins": wanted.bins}
    how, results = wanted.subsampling, wanted.subsampling.results
    stored: dict[str, Any] = {
        "kind": wanted.kind,
        "blocks": how.count,
        "seconds": how.seconds,
        "public_seed": how.public_seed,
    }
    if isinstance(results, Listed):
        if not all(value is None or isinstance(value, str | bool | int | float) for value in results.values):
            raise AggregateError("values that are neither texts nor numbers cannot be kept in a file")
        return {**stored, "values": list(results.values), "default": results.default[0]}
    names = wanted.names
    default = {
        name: min(results.value(step, place), results.ranges[place][1])
        for place, (name, step) in enumerate(zip(names, results.default))
    }
    ranges = {name: list(ends) for name, ends in zip(names, results.ranges)}
    return {**stored, "ranges": ranges, "names": list(names), "default": default, "levels": results.levels}


def _gone(codes: Any) -> Any:
    """Stands for a function that was not stored."""
    raise LookupError("the function of these values is not in their file")


def _wanted(schema: Schema, stored: Mapping[str, Any]) -> Wanted:
    """The inverse of `_wanted_json`, checked as what a user declares is."""
    kind = stored["kind"]
    if "column" in stored:
        column, bins = stored["column"], stored["bins"]
        if type(column) is not str or type(bins) is not int:
            raise ValueError("a column is named, and bins are numbered")
        if kind == "interquartile-range":
            return interquartile_range(schema, column, bins=bins)
        return {"mode": column_mode, "median": column_median}[kind](schema, column)
    how = {name: stored[name] for name in ("blocks", "seconds", "public_seed")}
    if "values" in stored:
        values = stored["values"]
        return aggregated(schema, _gone, by=kind, values=values, default=values[stored["default"]], trial=False, **how)
    ranges = {name: tuple(stored["ranges"][name]) for name in stored["names"]}
    # A mean is of many more levels than may be asked for.
    levels = {} if kind == "mean" else {"levels": stored["levels"]}
    return aggregated(schema, _gone, by=kind, range=ranges, default=stored["default"], trial=False, **how, **levels)


def _plan(
    wanted: Wanted,
    mechanism: Any,
    within: Any,
    promised: Guarantee,
    events: tuple[Event, ...],
    outcomes: tuple[Any, ...],
) -> ValuePlan:
    """The plan whose acts these are. Where rows may have been dropped, one unit may move more: either will do."""
    if mechanism not in MECHANISMS[wanted.kind] or (within is not None) != (mechanism == "propose-test-release"):
        raise files.BadSynopsisFile(MISFIT)
    if within is not None and (type(within) is not int or not 1 <= within < wanted.positions):
        raise files.BadSynopsisFile(MISFIT)
    if promised.epsilon is not None:
        budget = Budget(epsilon=promised.epsilon, delta=promised.delta)
    else:
        budget = Budget(rho=promised.rho, delta=promised.delta)
    for filtered in (False, True):
        relation = relation_of(wanted.schema, promised.neighbours, filtered=filtered)
        plan = _of_acts(wanted, mechanism, within or 0, budget, relation, events)
        if plan is not None and plan.acts(len(outcomes)) == events:
            return plan
    raise files.BadSynopsisFile(MISFIT)


def _of_acts(
    wanted: Wanted, mechanism: str, within: int, budget: Budget, relation: Relation, events: tuple[Event, ...]
) -> ValuePlan | None:
    """What was planned, read from what was done; None where the acts are of another kind.

    Danger: only numbers are taken from an act here. Whether it is the act of this plan is asked by who calls this.
    """
    first, neighbours = events[0], relation.neighbours
    if wanted.kind == "mean":
        assert isinstance(wanted, Aggregated)
        if isinstance(first, LaplaceNoise) and mechanism == "laplace":
            return expected_mean(wanted, mechanism, budget, relation, Noise("laplace", _scale(first.scale)))
        if isinstance(first, GaussianNoise) and mechanism == "gaussian":
            return expected_mean(wanted, mechanism, budget, relation, Noise("gaussian", _root(first.sigma_squared)))
        return None
    if mechanism in CHOICES:
        if not isinstance(first, ExponentialDraws | NoisyMaxima):
            return None
        bound = first.range if isinstance(first, ExponentialDraws) else first.epsilon
        epsilon = bound.under(neighbours)
        if epsilon is None or not LEAST / 1000 <= epsilon <= 1000 * MOST_EPSILON:
            return None
        return expected_choice(wanted, mechanism, budget, relation, epsilon)
    if not all(isinstance(event, StableValue) for event in events):
        return None
    whats = statistics_of(wanted, within)
    tests = []
    for place, what in enumerate(whats):
        # Both tests of a scale are alike: of one that was not made, the noise of the other is known.
        act = events[min(place, len(events) - 1)]
        assert isinstance(act, StableValue)
        own = act.epsilon.under(neighbours)
        noise = _scale(what.spread / own) if what.spread and own else None
        tests.append(Test(what=what, scale=_scale(act.scale), threshold=act.threshold, noise_scale=noise))
    return expected_tests(wanted, mechanism, budget, relation, tuple(tests))


def _scale(exact: Fraction) -> float:
    """A scale of noise. Those that no budget asks for would take long to say anything about."""
    if not Fraction(1, MOST) <= exact <= MOST:
        raise ValueError("noise of no scale")
    return float(exact)


def _root(square: Fraction) -> float:
    """The float whose square this is, where it is one; otherwise the nearest, of which it is not."""
    root = math.sqrt(_scale(square))
    near = (root, math.nextafter(root, 0.0), math.nextafter(root, math.inf))
    return next((each for each in near if Fraction(each) ** 2 == square), root)


def _check(plan: ValuePlan, outcomes: tuple[Any, ...]) -> None:
    """Refuse outcomes that the acts of a plan cannot have had, or with a probability below 10⁻⁸⁶."""
    wanted = plan.wanted
    numbers = [found for found in outcomes if found is not None]
    wrong = any(type(found) is not int or abs(found) > MOST for found in numbers)
    if wanted.kind == "interquartile-range":
        wrong |= len(outcomes) not in (1, 2) or (len(outcomes) == 1) != (outcomes[0] is not None)
    else:
        wrong |= len(outcomes) != len(wanted.names) or (not plan.tests and len(numbers) < len(outcomes))
    if wrong or not all(_possible(plan, place, found) for place, found in enumerate(outcomes) if found is not None):
        raise files.BadSynopsisFile("its acts cannot have given what it says: get the file again")


def _possible(plan: ValuePlan, place: int, found: int) -> bool:
    """Whether an outcome is one of the values that its statistic can have, or as far from one as noise may go."""
    wanted, ends = plan.wanted, [(0, plan.wanted.positions - 1)]
    law = plan.law
    if law is not None:
        assert isinstance(wanted, Aggregated)
        ends = [(0, SUM_STEPS * wanted.subsampling.count)]
    elif plan.tests and (scale := plan.tests[place].noise_scale) is not None:
        law = Noise("laplace", scale)
    if wanted.kind == "interquartile-range":
        ends = [(NO_SPREAD, NO_SPREAD), (0, LOG_STEPS * wanted.positions.bit_length())]
    # Laplace noise of scale b is beyond 200·b with probability 2e⁻²⁰⁰ at most, Gaussian noise beyond 20·σ, too.
    off = 0 if law is None else math.ceil((200 if law.kind == "laplace" else 20) * law.scale)
    return any(low - off <= found <= high + off for low, high in ends)
