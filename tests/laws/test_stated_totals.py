"""Files whose number of rows, truths or prices were changed one at a time: none states more than was paid for.

Whatever still loads states no smaller ε or ρ than before, no exact number of rows that was noisy, and no list of acts
as fixed in advance that was not.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.made import needed

import conspectus as cs
from conspectus.mechanisms.mechanism import Mechanism
from conspectus.mechanisms.registry import OFFLINE
from conspectus.privacy.accounting import Filter, best, epsilon_of, total_of
from conspectus.privacy.events import RowTotal
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.kept_promises import keeps
from conspectus.privacy.prices import price_rho
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.synopses import files
from conspectus.synopses.synopsis import BadSynopsis, Total

UNITS = {"rows": None, "ids": {"kind": "id", "column": "person", "max_rows": 2}}
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
QUICK: dict[str, dict[str, Any]] = {
    "adaptive": {"components": 20, "intervals": False},
    "boosting": {"rounds": 3},
    "small-db": {"size": 2},
    "dual-query": {"rounds": 3},
}


@cache
def table(unit: str) -> tuple[cs.Schema, cs.Table]:
    columns = {"age": {"type": "integer", "min": 0, "max": 15}, "ill": {"type": "boolean"}, "old": {"type": "boolean"}}
    declared: dict[str, Any] = {"name": "visits", "columns": columns}
    schema = cs.Schema.from_dict(declared | ({} if UNITS[unit] is None else {"unit": UNITS[unit]}))
    rows = {"age": [1, 5, 14, 3] * 50, "ill": [True, False] * 100, "old": [False] * 150 + [True] * 50}
    return schema, cs.open_table(pa.table({**rows, "person": [*range(100)] * 2}), schema)


def released(name: str, neighbours: str, unit: str) -> cs.Release:
    """A release by a mechanism; a session, a stream, and a filtered table are what else has files."""
    schema, rows = table(unit)
    if name == "stream":
        with cs.open_stream(schema, cs.sql(schema, ["ill"]), horizon=8, epsilon=1.0, neighbours=neighbours) as stream:
            stream.append(rows)
            return stream.release()
    if name == "persons":
        asked = cs.sql(schema, ["ill"])
        with cs.open_stream(schema, asked, horizon=8, epsilon=1.0, neighbours=neighbours, events=3) as stream:
            stream.append(rows)
            return stream.release()
    if name.startswith("session-"):
        named = name.removeprefix("session-")
        with cs.open_session(rows, questions=20, neighbours=neighbours, mechanism=named, **BUDGET) as session:
            session.ask("ill AND old")
            return session.release()
    workload = cs.ranges(schema, "age") if name == "tree" else cs.marginals(schema, 1)
    if name == "sparse-project":
        workload = cs.sparse(cs.marginals(schema, 2))
    settings = needed(name, schema) | QUICK.get(name, {})
    return cs.release(rows, workload, mechanism=name, neighbours=neighbours, **BUDGET, **settings)


CASES = [
    (name, neighbours, unit)
    for name in (*OFFLINE, "session-pmw", "session-laplace", "session-gaussian", "stream", "persons")
    for neighbours in ("replace", "add-remove")
    for unit in UNITS
    if unit == "rows" or name not in ("stream", "persons")
]


def places(part: Any, way: tuple[Any, ...] = (), *, total: bool = False) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every number of a total and every truth anywhere, by the way to it."""
    if isinstance(part, dict):
        inside = total or {"exact", "terms", "averaged"} <= part.keys()
        for name, value in part.items():
            yield from places(value, (*way, name), total=inside)
    elif isinstance(part, list):
        for place, value in enumerate(part[:3]):  # members of an ensemble are alike
            yield from places(value, (*way, place), total=total)
    elif isinstance(part, bool) or (total and not isinstance(part, str)):
        yield way, part


def changes(value: Any) -> list[Any]:
    """What a truth or a number of a total may be changed to."""
    if isinstance(value, bool):
        return [not value]
    if value is None:
        return ["laplace"]
    return [0, 1, value / 2 if isinstance(value, float) else value // 2, value * 1000]


def with_change(manifest: dict, way: tuple[Any, ...], value: Any) -> dict:
    changed = copy.deepcopy(manifest)
    part = changed
    for step in way[:-1]:
        part = part[step]
    part[way[-1]] = value
    return changed


def of_totals(manifest: dict, change: Callable[[dict], None]) -> dict:
    """The same change of every total: a release may have several, and they agree."""
    changed = copy.deepcopy(manifest)
    for way in {way[:-1] for way, _ in places(changed) if way[-1] == "exact"}:
        part = changed
        for step in way:
            part = part[step]
        change(part)
    return changed


def exact(total: dict) -> None:
    total.update(value=200.0, exact=True, kind=None, scale=0.0, terms=0, averaged=1)


def loaded(path: Path, contents: files.Contents, manifest: dict) -> cs.Release | None:
    """What a file with this manifest is read as; None where it is refused in one sentence."""
    files.write(path, manifest, contents.workload, contents.tables)
    try:
        return cs.load(path)
    except files.BadSynopsisFile:
        return None


def no_more_than(found: cs.Release, made: cs.Release) -> bool:
    """Whether a file states nothing better than the release did."""
    stated, held = found.guarantee, made.guarantee
    for name in ("epsilon", "rho"):
        before, now = getattr(held, name), getattr(stated, name)
        if (before is None) != (now is None) or (before is not None and now < before):
            return False
    if found.synopsis.total.exact > made.synopsis.total.exact or found.declared > made.declared:
        return False
    return found.synopsis.total.exact or found.synopsis.total.margin(0.95) > 0


@pytest.mark.parametrize(("name", "neighbours", "unit"), CASES)
def test_no_change_of_a_total_or_a_truth_states_more(tmp_path: Path, name: str, neighbours: str, unit: str) -> None:
    path = tmp_path / "one"
    made = released(name, neighbours, unit)
    made.save(path)
    contents = files.read(path)
    manifest = json.loads(json.dumps(contents.manifest))
    same = loaded(path, contents, manifest)
    assert same is not None
    assert (same.declared, same.guarantee) == (made.declared, made.guarantee)
    public = made.synopsis.total.exact
    assert public == (neighbours == "replace" and unit == "rows" and name != "persons")
    tried = 0
    for way, value in places(manifest):
        for other in changes(value):
            found = loaded(path, contents, with_change(manifest, way, other))
            assert found is None or no_more_than(found, made), (way, other)
            tried += 1
    assert tried >= 5
    for part in (manifest, {**manifest, "declared": True}):
        found = loaded(path, contents, of_totals(part, exact))
        assert found is None or (public and no_more_than(found, made))
    found = loaded(path, contents, {**manifest, "declared": True})
    assert found is not None
    assert found.declared == made.declared
    # The act that says that the number of rows was used in the open has no price where it is private.
    used = {**manifest, "events": [{"event": "rows"}, *manifest["events"]]}
    assert (loaded(path, contents, of_totals(used, exact)) is None) == (not public)


def test_the_number_of_a_filtered_table_is_not_stated_exactly(tmp_path: Path) -> None:
    """The schema of a file does not say that rows were left out: the act that used their number is not there."""
    schema, _ = table("rows")
    source = tmp_path / "visits.csv"
    source.write_text("age,ill,old\n" + "1,true,false\n2,false,true\n" * 50, encoding="utf-8")
    query = f"SELECT * FROM '{source}' WHERE age < 2"
    path = tmp_path / "one"
    with cs.open_table(query, schema) as rows:
        for name in ("laplace", "mwem"):
            made = cs.release(rows, cs.marginals(schema, 1), mechanism=name, epsilon=1.0)
            assert not made.synopsis.total.exact
            made.save(path)
            contents = files.read(path)
            assert loaded(path, contents, contents.manifest) is not None
            assert loaded(path, contents, of_totals(contents.manifest, exact)) is None


def test_a_noisy_total_has_a_draw() -> None:
    with pytest.raises(BadSynopsis, match="at least one draw"):
        Total(value=3.0, exact=False, kind="laplace", scale=1.0, terms=0)


@pytest.mark.parametrize("name", OFFLINE)
@pytest.mark.parametrize("pure", [True, False])
def test_the_registry_says_which_mechanisms_declare_their_acts(name: str, pure: bool) -> None:
    kind, acts = OFFLINE[name].load(), OFFLINE[name].acts
    assert (kind.declare is not Mechanism.declare) == acts.startswith("declared")
    assert (kind.terms is not Mechanism.terms) == (acts == "gaussian")
    if name in ("laplace", "histogram", "tree", "projection", "sparse-project"):
        schema, rows = table("rows")
        workload = cs.sparse(cs.marginals(schema, 2)) if name == "sparse-project" else cs.ranges(schema, "age")
        made = cs.release(rows, workload, mechanism=name, epsilon=1.0, delta=0.0 if pure else 1e-6)
        assert made.declared == (acts == "declared" or not pure)


@pytest.mark.parametrize("name", ["iterative", "mwem", "adaptive", "session-gaussian", "session-laplace", "stream"])
def test_what_was_chosen_as_one_went_is_priced_by_its_filter(tmp_path: Path, name: str) -> None:
    """The ε of a cap is not that of what happened to be spent, nor one by a theorem that is better for that."""
    path = tmp_path / "one"
    made = released(name, "replace", "rows")
    made.save(path)
    contents, held = files.read(path), made.guarantee
    lower, rho, _ = best(made.events, held.delta, held.neighbours)
    for epsilon in {float(lower or 1), 0.9 * (held.epsilon or 0.0)}:
        if held.epsilon is not None and epsilon < held.epsilon * 0.999 and (held.delta or epsilon < float(lower or 0)):
            stated = {**contents.manifest["guarantee"], "epsilon": epsilon}
            assert loaded(path, contents, {**contents.manifest, "guarantee": stated}) is None
    if held.rho is not None and rho is not None:
        # Less than the acts cost is refused, whatever else is stated.
        spent = float(total_of(price_rho(event, held.neighbours) for event in made.events)) * 0.999
        stated = {**contents.manifest["guarantee"], "rho": spent, "epsilon": epsilon_of(spent, held.delta)}
        assert loaded(path, contents, {**contents.manifest, "guarantee": stated}) is None


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-12, 1e-3, 0.5])
def test_what_a_filter_promises_is_what_a_file_may_state(epsilon: float, delta: float) -> None:
    """Rounding refuses no honest file; a guarantee that is a thousandth smaller is refused."""
    budget, relation = Budget(epsilon=epsilon, delta=delta), Relation(Neighbours.REPLACE)
    gate = Filter.of(budget, relation.neighbours)
    gate.admit(RowTotal())
    held = gate.guarantee("row")
    assert keeps(held, gate.events, relation, allowed="filtered")
    assert not keeps(held, gate.events, Relation(Neighbours.REPLACE, 2, False), allowed="filtered")
    assert not keeps(held, (), relation, allowed="filtered")
    if delta:
        assert held.epsilon is not None
        smaller = replace(held, epsilon=held.epsilon * 0.999)
        assert not keeps(smaller, gate.events, relation, allowed="filtered")
        assert keeps(smaller, gate.events, relation, allowed="declared")


def test_both_tests_of_a_scale_are_priced(tmp_path: Path) -> None:
    """Where the first test finds a scale the second is not made: that is an outcome, and no smaller price."""
    schema = cs.Schema.from_dict({"name": "ages", "columns": {"age": {"type": "integer", "min": 1, "max": 1000}}})
    rows = cs.open_table(pa.table({"age": [100] * 3000 + [400] * 3000}), schema)
    path = tmp_path / "one"
    made = cs.release_value(rows, cs.interquartile_range(schema, "age"), epsilon=2.0, delta=1e-6)
    made.save(path)
    assert cs.load_value(path).guarantee == made.guarantee
    assert len(made.events) == 1
    contents, (alone, _, _) = files.read(path), best(made.events, 1e-6, made.guarantee.neighbours)
    assert alone is not None
    assert alone < Fraction(made.guarantee.epsilon or 0)
    stated = {**contents.manifest["guarantee"], "epsilon": float(alone) * 1.0001}
    files.write(path, {**contents.manifest, "guarantee": stated}, contents.workload, contents.tables)
    with pytest.raises(files.BadSynopsisFile, match="cost more"):
        cs.load_value(path)


def test_the_events_of_a_person_are_in_the_price_of_a_stream(tmp_path: Path) -> None:
    """A stream for persons of three events, told at a third of its price."""
    path = tmp_path / "one"
    made = released("persons", "add-remove", "rows")
    made.save(path)
    contents = files.read(path)
    manifest = copy.deepcopy(contents.manifest)
    manifest["guarantee"]["epsilon"] /= 3
    for act in manifest["events"]:
        for name, power in (("reach", 1), ("reach_squared", 2), ("reach_max", 1)):
            act[name] = {side: str(Fraction(bound) / 3**power) for side, bound in act[name].items()}
    assert loaded(path, contents, manifest) is None
