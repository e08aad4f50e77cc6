"""A release in JSON, for a page or a program: what it is, one answer, one table.

Numbers travel as the library has them, fractions uncut; null means that no honest number exists, and never zero.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from conspectus.data.columns.kinds import Column, Ordered
from conspectus.data.schema import Schema
from conspectus.privacy.guarantee import Guarantee
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.formulas import all_of, literal, predicate
from conspectus.queries.language import from_sql as language
from conspectus.releases.answer import Answer
from conspectus.releases.release import Release
from conspectus.report.meaning import PRIORS, meaning_of
from conspectus.report.page import sentence
from conspectus.synopses.intervals.simulated_errors import FAILED

from .refusing import Refused
from .shelf import Published

MOST_CODES = 200
"""A column with more codes is described by their number alone: nobody picks from a longer list."""
MOST_COLUMNS = 200
MOST_CELLS = 20_000
"""A table with more cells than this is downloaded as a file, and not shown."""


_QUOTED = re.compile(r'"([a-z_][a-z0-9_]*)"')


def about_release(published: Published) -> dict[str, Any]:
    """What a release is: its promise, its columns, what can be asked of it."""
    release = published.release
    return {
        "kind": "release",
        **in_short(published),
        **about_table(release.schema, release.guarantee),
        "certificate": certificate_json(release),
        "measured_order": measured_order(release),
        "has_tables": release.counts_rows,
    }


def in_short(published: Published) -> dict[str, Any]:
    """What a list of releases and a page about one of them both say."""
    release = published.release
    return {
        "name": published.name,
        "made": published.made,
        "rows": release.total.rows if release.counts_rows else None,
        "rows_public": release.total.exact,
        "questions": release.answered,
        "mechanism": release.mechanism,
        "has_rows": release.gives_rows,
    }


def about_table(schema: Schema, guarantee: Guarantee) -> dict[str, Any]:
    """What is the same for a release and a session: the table, its columns, what each unit is promised."""
    return {
        "table": schema.name,
        "row_words": list(schema.nouns or ("row", "rows")),
        "unit_word": (schema.nouns or ("row",))[0] if schema.unit.column is None else schema.unit.column,
        "guarantee": guarantee_json(guarantee),
        "meaning": _meaning(guarantee),
        "warnings": list(guarantee.warnings),
        "columns": [_column(column) for column in schema.columns[:MOST_COLUMNS]],
        "columns_in_all": len(schema.columns),
    }


def guarantee_json(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee with its own text, word for word."""
    return {**dataclasses.asdict(guarantee), "warnings": list(guarantee.warnings), "text": str(guarantee)}


def measured_order(release: Release) -> int | None:
    """How many columns the released tables have, where the release is one of all such tables; None otherwise."""
    blocks = release.workload.blocks
    if not blocks or not all(isinstance(block, Marginal) for block in blocks):
        return None
    order, *others = {len(block.columns) for block in blocks}
    every = math.comb(len(release.schema.columns), order)
    return order if order and not others and len(blocks) == every else None


def spelled(schema: Schema, where: str | None, picks: Mapping[str, Sequence[int]] | None) -> str:
    """The question as a predicate: as it was typed, or spelled from the codes picked of some columns."""
    if (where is None) == (picks is None):
        raise Refused(
            status=422,
            error="bad-question",
            title="Not one question",
            text="Send either where, a predicate, or picks, a list of codes for each column.",
        )
    if where is not None:
        return where
    domain, parts = schema.domain, []
    for name, codes in (picks or {}).items():
        if name not in domain.names:
            raise _no_column(schema)
        at = domain.names.index(name)
        if not codes or any(not 0 <= code < domain.sizes[at] for code in codes):
            raise Refused(
                status=422,
                error="unknown-value",
                title="There is no such value",
                text=f'The codes of "{name}" go from 0 to {domain.sizes[at] - 1}; pick one or more.',
            )
        parts.append(literal(domain, at, codes))
    asked = predicate(domain, all_of(domain, parts))
    words = language.to_sql(schema, asked)
    # Names without quotation marks are easier to read, where they mean the same.
    plain = _QUOTED.sub(r"\1", words)
    return plain if language.read(schema, plain).query == asked else words


def _no_column(schema: Schema) -> Refused:
    return Refused(
        status=422,
        error="unknown-column",
        title="There is no such column",
        text=f"The columns are {', '.join(schema.domain.names[:20])}.",
    )


def answered(
    schema: Schema, answer: Answer, where: str, *, why: str | None, columns: Sequence[int] | None = None
) -> dict[str, Any]:
    """An answer with the question as it was understood, its columns, and the reason where there is no interval."""
    said = answer.question or where
    return {
        **vars(answer),
        "notes": list(answer.notes),
        "where": said,
        "columns": columns_of(schema, said) if columns is None else [schema.domain.names[at] for at in columns],
        "why": why if answer.low is None else None,
    }


def columns_of(schema: Schema, where: str) -> list[str]:
    """The columns that a predicate names."""
    found = language.read(schema, where, snap=True).query.columns
    return [schema.domain.names[position] for position in found]


def why_none(release: Release, where: str) -> str:
    """Why an answer has no interval, in one sentence."""
    failed = [warning for warning in release.guarantee.warnings if warning.startswith(FAILED)]
    if failed:
        return sentence(failed[0])
    asked = len(columns_of(release.schema, where))
    if 0 < release.synopsis.simulated_columns < asked:
        seen = release.synopsis.simulated_columns
        return (
            f"It combines {asked} columns, and the reruns that intervals come from answered questions of up to {seen}."
        )
    order = measured_order(release)
    if order is not None and asked > order:
        return f"It combines {asked} columns, and the release measured tables of {order}."
    return "It is computed from what was published, and nothing that was measured says how far it is off."


def table_json(release: Release, by: Sequence[str], confidence: float) -> dict[str, Any]:
    """A published table by the codes of its cells; one that is too long to show is refused with what to do instead."""
    schema = release.schema
    if not set(by) <= set(schema.domain.names):
        raise _no_column(schema)
    sizes = [schema.column(name).size for name in by]
    if math.prod(sizes) > MOST_CELLS:
        raise Refused(
            status=422,
            error="too-many-cells",
            title="This table is too long to show",
            text=f"It has {math.prod(sizes):,} cells, and {MOST_CELLS:,} are shown at most: download it as a file, "
            "with as=csv or as=parquet.",
        )
    made = release.table(list(by), confidence=confidence)
    cells = zip(*(made[name].to_pylist() for name in ("count", "low", "high", "too_noisy")))
    listed = [
        {"codes": list(codes), "count": count, "low": low, "high": high, "too_noisy": noisy}
        for codes, (count, low, high, noisy) in zip(product(*map(range, sizes)), cells)
    ]
    labels = [list(schema.column(name).labels) for name in by]
    return {"by": list(by), "confidence": confidence, "labels": labels, "cells": listed}


def _column(column: Column) -> dict[str, Any]:
    few = column.size <= MOST_CODES
    bounds: list[list[str]] | None = None
    if isinstance(column, Ordered) and few:
        bounds = [[str(end) for end in column.bounds(code)] for code in range(column.regular)]
    return {
        "name": column.name,
        "kind": column.kind,
        "size": column.size,
        "codes": list(column.labels) if few else None,
        "bounds": bounds,
        "ordered": column.ordered,
        "missing": column.missing,
        "other": column.other,
    }


def certificate_json(release: Release) -> dict[str, Any] | None:
    """The bound that was certified, where it says anything."""
    held = release.certificate
    if held is None or held.vacuous:
        return None
    return {
        "bound": held.bound,
        "failure": held.failure_probability,
        "scope": held.scope,
        "holds": held.holds,
    }


def _meaning(guarantee: Guarantee) -> dict[str, Any]:
    """What the guarantee lets anybody learn about one unit: how far a belief can move."""
    meaning = meaning_of(guarantee)
    return {
        "epsilon": meaning.epsilon,
        "delta": meaning.delta,
        "implied": meaning.implied,
        "beliefs": [[prior, *meaning.beliefs(prior)] for prior in PRIORS],
        "best_guess": meaning.best_guess,
    }
