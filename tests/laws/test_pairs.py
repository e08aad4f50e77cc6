"""Pairs of users and items: one row a user, whatever the source, and one user moves one row."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conspectus as cs
from conspectus.curator.acts import relation_of
from conspectus.curator.curator import Curator
from conspectus.data.columns.values import text_of
from conspectus.data.schema import SchemaError
from conspectus.data.sources import PairsTable, SourceError
from conspectus.data.sources.numbering import Numbering
from conspectus.privacy.accounting import Filter
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.relation import Neighbours, RelationError

Pairs = list[tuple[Any, Any]]
ITEMS = ("a", "b", "c")


def rows_of(table: PairsTable) -> Counter[tuple[int, ...]]:
    """The rows of a table as a multiset."""
    found: Counter[tuple[int, ...]] = Counter()
    for chunk in table.chunks():
        columns = [chunk.column(c).tolist() for c in range(len(table.domain))]
        found.update(zip(*columns))
    return found


def expected(pairs: Pairs, items: tuple[Any, ...], users: int | None = None) -> Counter[tuple[int, ...]]:
    """By the definition, while no more users appear than were declared."""
    baskets: dict[Any, set[Any]] = {}
    for user, item in pairs:
        if user is not None:
            baskets.setdefault(user, set()).add(item)
    rows = Counter(tuple(int(item in basket) for item in items) for basket in baskets.values())
    if users is not None and users > len(baskets):
        rows[(0,) * len(items)] += users - len(baskets)
    return rows


def opened(pairs: Pairs, **settings: Any) -> PairsTable:
    users, items = ([pair[at] for pair in pairs] for at in range(2))
    return cs.open_pairs(pa.table({"user": pa.array(users), "item": pa.array(items, pa.string())}), **settings)


pair_lists = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 6)), st.one_of(st.none(), st.sampled_from(["a", "b", "c", "other"]))),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(pair_lists, st.one_of(st.none(), st.integers(7, 9)))
def test_rows_are_the_users_baskets(pairs: Pairs, users: int | None) -> None:
    table = opened([(1, "a"), *pairs], users=users, items=ITEMS)
    assert rows_of(table) == expected([(1, "a"), *pairs], ITEMS, users)
    assert rows_of(table) == rows_of(opened([*reversed(pairs), (1, "a")], users=users, items=ITEMS))


def distance(a: Counter[tuple[int, ...]], b: Counter[tuple[int, ...]]) -> tuple[int, int]:
    """How many rows one has and the other has not, both ways."""
    return (a - b).total(), (b - a).total()


@settings(max_examples=80, deadline=None)
@given(pair_lists, st.integers(0, 6), st.lists(st.sampled_from(["a", "b", "c", "x"]), max_size=4), st.integers(1, 6))
def test_one_user_moves_one_row_of_a_declared_table(pairs: Pairs, gone: int, basket: list[str], users: int) -> None:
    """Also where more users appear than were declared, and where a user comes without pairs or goes."""
    others = [(user, item) for user, item in pairs if user != gone]
    after = others + [(7, item) for item in basket]
    here, there = (opened(side, users=users, items=ITEMS) for side in ([(None, "a"), *pairs], [(None, "a"), *after]))
    before_rows, after_rows = rows_of(here), rows_of(there)
    assert before_rows.total() == after_rows.total() == users
    assert max(distance(before_rows, after_rows)) <= 1


@settings(max_examples=60, deadline=None)
@given(pair_lists, st.integers(0, 6))
def test_one_user_more_is_one_row_more(pairs: Pairs, user: int) -> None:
    pairs = [*pairs, (user, "a")]
    others = [(None, "b"), *((who, item) for who, item in pairs if who != user)]
    assert distance(rows_of(opened(pairs, items=ITEMS)), rows_of(opened(others, items=ITEMS))) == (1, 0)


def test_a_rule_by_position_would_move_more() -> None:
    """The wrong twin of the rule for too many users: the first to appear are kept."""

    def first(pairs: Pairs, users: int) -> Counter[tuple[int, ...]]:
        kept = list(dict.fromkeys(user for user, _ in pairs))[:users]
        return expected([(user, item) for user, item in pairs if user in kept], ITEMS)

    # One user is replaced by a user who appears elsewhere in the file: position lets two others trade places.
    pairs = [(1, "a"), (2, "b"), (3, "c"), (4, "a"), (4, "b")]
    moved = [distance(first(pairs, 2), first(list(order), 2)) for order in itertools.permutations(pairs)]
    assert max(max(pair) for pair in moved) > 1
    same = [rows_of(opened(list(order), users=2, items=ITEMS)) for order in itertools.permutations(pairs)]
    assert all(rows == same[0] for rows in same)


def test_every_source_gives_the_same_rows(tmp_path: Path) -> None:
    pairs = [(10, 3), (10, 1), (20, 3), (30, 2), (10, 3), (40, 12)]
    users, items = ([pair[at] for pair in pairs] for at in range(2))
    arrow = pa.table({"item": items, "user": users})
    pq.write_table(arrow, tmp_path / "pairs.parquet")
    (tmp_path / "pairs.csv").write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    text = pa.table({"item": [f" {item} " for item in items], "user": [str(user) for user in users]})
    sources: list[Any] = [
        arrow,
        text,
        arrow.to_pandas(),
        pd.DataFrame({"user": [float(u) for u in users], "item": [float(i) for i in items]}),
        pl.from_arrow(arrow),
        tmp_path / "pairs.parquet",
        str(tmp_path / "pairs.csv"),
        f"SELECT user, item FROM '{tmp_path / 'pairs.csv'}'",
        pa.table({"user": pa.array(users).dictionary_encode(), "item": items}),
    ]
    for source in sources:
        table = cs.open_pairs(source)
        assert table.domain.names == ("1", "2", "3", "12")
        assert rows_of(table) == expected(pairs, (1, 2, 3, 12))
        assert table.schema.draft
        declared = cs.open_pairs(source, items=[12, "3", 1, 2])
        assert rows_of(declared) == expected(pairs, (12, 3, 1, 2))
        assert not declared.schema.draft


def test_what_is_public() -> None:
    pairs: Pairs = [(1, "a"), (2, "b"), (3, None)]
    plain = opened(pairs)
    assert sum(chunk.rows for chunk in plain.chunks(())) == 3
    assert not plain.filtered
    workload = cs.conjunctions(plain.schema, [{"a": True}, {"a": False, "b": False}])
    release = cs.release(plain, workload, epsilon=1e6, mechanism="laplace")
    assert release.answers.tolist() == [1 / 3, 1 / 3]
    assert release.guarantee.unit == "user (all pairs)"
    assert "drafted from the data" in str(release.guarantee)


def test_a_user_may_have_pairs_or_none_so_the_number_of_users_is_private() -> None:
    """Under replace one user's pairs become none: tables of two and of one user are neighbours."""
    here, there = opened([(1, "a"), (2, "b")], items=ITEMS), opened([(1, "a")], items=ITEMS)
    assert here.schema == there.schema
    assert {rows_of(table).total() for table in (here, there)} == {1, 2}
    told = [
        cs.release(table, cs.marginals(here.schema, 1), epsilon=1.0, mechanism="laplace") for table in (here, there)
    ]
    assert not any(release.total.exact for release in told)
    relation = relation_of(here.schema, Neighbours.REPLACE, filtered=here.filtered)
    assert not relation.total_is_public
    everyone = cs.sql(here.schema, ["true"])
    assert everyone.sensitivity(relation).l1 == 1  # a row that vanishes moves the count of all rows
    declared = opened([(1, "a"), (2, "b")], items=ITEMS, users=2)
    assert relation_of(declared.schema, Neighbours.REPLACE, filtered=declared.filtered).total_is_public


def test_a_filter_makes_the_number_of_users_private(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("user,item,stars\n1,a,5\n2,b,1\n")
    query = f"SELECT user, item FROM '{tmp_path / 'pairs.csv'}' WHERE stars > '3'"
    assert cs.open_pairs(query, items=ITEMS).filtered
    # A user that is computed may come out null: that is a filter in other words.
    computed = f"SELECT CASE WHEN stars > '3' THEN user END AS user, item FROM '{tmp_path / 'pairs.csv'}'"
    assert cs.open_pairs(computed, items=ITEMS).filtered
    assert not cs.open_pairs(tmp_path / "pairs.csv", items=ITEMS).filtered
    declared = cs.open_pairs(query, items=ITEMS, users=5)
    assert not declared.filtered
    assert rows_of(declared) == Counter({(1, 0, 0): 1, (0, 0, 0): 4})


def test_declared_users_and_add_remove_do_not_go_together() -> None:
    table = opened([(1, "a")], users=4, items=ITEMS)
    workload = cs.conjunctions(table.schema, [{"a": True}])
    with pytest.raises(RelationError, match="users="):
        cs.release(table, workload, epsilon=1.0, neighbours="add-remove")
    budget = Budget(epsilon=1.0)
    with pytest.raises(RelationError, match="users="):
        Curator(table, Filter.of(budget, "add-remove"), neighbours="add-remove")


def test_a_release_of_pairs_is_a_release(tmp_path: Path) -> None:
    pairs: Pairs = [(user, ITEMS[user % 3]) for user in range(50)]
    table = opened(pairs, users=60, items=ITEMS)
    release = cs.release(table, cs.marginals(table.schema, 2), epsilon=100.0, mechanism="laplace")
    release.save(tmp_path / "out.conspectus")
    again = cs.load(tmp_path / "out.conspectus")
    assert again.schema == table.schema
    assert again.schema.unit.users == 60
    assert abs(again.ask("a = false AND b = false").count - 26) < 3  # 16 of 50 have c, and 10 have nothing
    reopened = cs.open_table(pa.table({"user": [1], "item": ["b"]}), again.schema)
    assert rows_of(reopened) == Counter({(0, 1, 0): 1, (0, 0, 0): 59})


def test_many_users_in_many_chunks() -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    users, items = rng.integers(0, 150_000, 400_000), rng.integers(0, 5, 400_000)
    table = cs.open_pairs(pa.table({"user": users, "item": items}), items=range(5), users=200_000)
    baskets = np.zeros((200_000, 5), dtype=bool)
    baskets[users, items] = True
    workload = cs.random_conjunctions(table.schema, 3, 80, 1, negations=True)
    release = cs.release(table, workload, epsilon=1e9, mechanism="laplace")
    for query, answer in zip(workload.queries(), release.answers):
        (box,) = query.boxes  # type: ignore[union-attr]
        truth = np.logical_and.reduce([baskets[:, literal.column] == literal.codes[0] for literal in box]).sum()
        assert round(answer * 200_000) == truth


def test_names_that_differ_by_case_become_columns() -> None:
    table = opened([(1, "a"), (1, "A"), (2, "a (2)"), (3, "A")])
    assert sorted(table.domain.names) == ["A", "a (2)", "a (3)"]


def test_what_cannot_be_opened() -> None:
    pairs = pa.table({"user": [1], "item": ["a"]})
    with pytest.raises(SchemaError, match="two columns"):
        cs.open_pairs(pairs, "user", "user")
    with pytest.raises(SchemaError, match="positive"):
        cs.open_pairs(pairs, users=0)
    with pytest.raises(SourceError, match="no column"):
        cs.open_pairs(pairs, "uesr")
    with pytest.raises(SchemaError, match="differ by case"):
        cs.open_pairs(pairs, items=["a", "A"])
    with pytest.raises(SchemaError, match="at least one column"):
        cs.open_pairs(pairs, items=[])
    with pytest.raises(SourceError, match="names no item"):
        cs.open_pairs(pa.table({"user": [1], "item": pa.array([None], pa.string())}))
    declared = {"name": "t", "unit": {"kind": "pairs", "column": "user", "item": "item"}}
    with pytest.raises(SchemaError, match="boolean"):
        cs.Schema.from_dict({**declared, "columns": {"a": {"type": "integer", "min": 0, "max": 1}}})


@pytest.mark.parametrize(
    "values",
    [
        pa.array([5, -7, 5, 1 << 62, None, -7, 3]),
        pa.array([5, 7, 5, (1 << 64) - 1, None, 7, 3], pa.uint64()),
        pa.array([0, 1 << 26, 0, 1 << 28, None, 1 << 26, 2], pa.int32()),
        pa.array([1.0, 2.5, 1.0, 3.0, float("nan"), 2.5, 1e300]),
        pa.array(["a", " b", "a ", "", None, "b", "c"]),
        pa.array([b"a", b"b", b"a", b"\xff", None, b"b", b"c"]),
        pa.array([1, 2, 1, 3, None, 2, 4], pa.date32()),
        pa.array([True, False, True, None, None, False, True]),
    ],
)
def test_users_and_items_of_any_type(values: pa.Array) -> None:
    """Two rows of one value are one user, and one item, in one batch or in many."""
    text = [None if value is None else text_of(value) for value in values.to_pylist()]
    pairs = [(user, item) for user, item in zip(text, text[::-1])]
    numbers = Numbering(lambda value: -1 if (known := text_of(value)) is None else text.index(known))
    whole = numbers.of(values).tolist()
    assert whole == [-1 if known is None else text.index(known) for known in text]
    assert [int(numbers.of(values[at : at + 1])[0]) for at in range(len(values))] == whole
    table = cs.open_pairs(pa.table({"user": values, "item": values[::-1]}))
    assert rows_of(table) == expected(pairs, table.domain.names)


def test_a_table_of_numbers_grows_both_ways() -> None:
    numbers = Numbering(lambda value: int(str(value)) + 1_000_000)
    for values in ([10, 20], [-500_000], [900_000, 10], [-500_000, 20]):
        assert numbers.of(pa.array(values)).tolist() == [value + 1_000_000 for value in values]
