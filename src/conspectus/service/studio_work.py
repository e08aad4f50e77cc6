"""What the studio does for its page: check a declared schema, plan over several ε, make a release and its report."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

import conspectus as cs
from conspectus.data.columns.column import SchemaError
from conspectus.data.schema import Schema
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.queries.language import from_sql as language
from conspectus.queries.workload import Workload
from conspectus.releases.release import Release
from conspectus.report import write_report

from .describing import certificate_json, guarantee_json
from .refusing import Refused, internal, refusal_of
from .schema_text import schema_text

STAGES = ("Reading the rows", "Drawing the noise and fitting", "Saving the release", "Writing the report")
EXPECTED = ("expected_max", "expected_mean", "expected_width")
MOST_STEPS = 200
"""Releases and sessions of a ledger that are shown, the latest ones."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Questions(_Strict):
    """What is to be published: every table of so many columns, and predicates besides."""

    marginals: Annotated[int, Field(ge=0, le=4)] = 3
    sql: Annotated[list[str], Field(max_length=200)] = []


class Planned(_Strict):
    """What to plan for. No row is read."""

    declared: dict[str, Any]
    workload: Questions
    rows: Annotated[int, Field(ge=1)]
    epsilons: Annotated[list[float], Field(min_length=1, max_length=20)]
    delta: Annotated[float, Field(ge=0, lt=1)] = 1e-6
    must: Annotated[list[str], Field(max_length=200)] = []


class Releasing(_Strict):
    """What to release, once and for good."""

    declared: dict[str, Any]
    workload: Questions
    epsilon: float
    delta: Annotated[float, Field(ge=0, lt=1)] = 1e-6
    mechanism: str = "auto"


def checked_schema(declared: dict[str, Any]) -> dict[str, Any]:
    """Whether a schema is one: how many kinds of row it allows, or what is wrong at which column."""
    try:
        schema = Schema.from_dict(declared)
    except SchemaError as problem:
        columns = declared.get("columns")
        listed = columns if isinstance(columns, list) else []
        names = [one["name"] for one in listed if isinstance(one, dict) and isinstance(one.get("name"), str)]
        named = next((name for name in names if f'"{name}"' in str(problem)), None)
        return {"ok": False, "column": named, "text": str(problem)}
    cells = schema.domain.cells
    return {"ok": True, "cells": cells if cells < 10**15 else None, "columns": len(schema.columns)}


def questions_of(schema: Schema, wanted: Questions) -> Workload:
    """The workload: all marginals of an order, and the predicates."""
    order = min(wanted.marginals, len(schema.columns))
    parts = [cs.marginals(schema, order)] if order else []
    parts += [cs.sql(schema, wanted.sql)] if wanted.sql else []
    if not parts:
        raise Refused(status=422, error="questions", title="No questions", text="Choose tables, or add a question.")
    return sum(parts[1:], parts[0])


def plan(wanted: Planned) -> dict[str, Any]:
    """What every mechanism expects at each ε, in counts; and which of the owner's questions would have an interval."""
    schema = Schema.from_dict(wanted.declared)
    workload = questions_of(schema, wanted.workload)
    found: dict[str, dict[str, Any]] = {}
    refusals: dict[str, str] = {}
    names: list[str] = []
    for place, epsilon in enumerate(wanted.epsilons):
        made = cs.plan(schema, workload, rows=wanted.rows, epsilon=epsilon, delta=wanted.delta)
        refusals |= {refusal.mechanism: refusal.reason for refusal in made.refusals}
        for claim in made.claims:
            effort = made.efforts.get(claim.mechanism)
            line = found.setdefault(
                claim.mechanism,
                {
                    "mechanism": claim.mechanism,
                    **{name: [None] * len(wanted.epsilons) for name in (*EXPECTED, "bound")},
                    "notes": "; ".join(claim.notes),
                    "effort": None if effort is None else dataclasses.asdict(effort),
                    "rows": made.gives_rows(claim),
                },
            )
            for name in EXPECTED:
                line[name][place] = _finite(getattr(claim, name))
            bound = claim.bound
            if bound is not None and not bound.vacuous and bound.statistic == "max":
                line["bound"][place] = _finite(bound.value * wanted.rows)  # a bound is a fraction, an error a count
        names = [claim.mechanism for claim in made.claims] or names
    return {
        "questions": len(workload),
        "tables": len(workload.blocks),
        "epsilons": wanted.epsilons,
        "claims": [found[name] for name in sorted(found, key=lambda name: names.index(name) if name in names else 99)],
        "refusals": [{"mechanism": name, "reason": why} for name, why in refusals.items() if name not in found],
        "covered": [_covered(schema, wanted.workload, where) for where in wanted.must],
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _covered(schema: Schema, questions: Questions, where: str) -> dict[str, Any]:
    """Whether a question is part of a published table, or is published itself."""
    try:
        columns = language.read(schema, where).query.columns
    except (ValueError, LookupError) as error:
        return {"where": where, "interval": False, "text": refusal_of(error).text}
    if len(columns) <= questions.marginals or where in questions.sql:
        return {"where": where, "interval": True, "text": "Answered with an interval: it is part of what is published."}
    return {"where": where, "interval": False, "text": f"Names {len(columns)} columns: an answer without an interval."}


def ledger_json(ledger: Ledger) -> dict[str, Any]:
    """What a ledger has left, and what was spent of it over time."""
    cap, spent, rate = float(ledger.cap), float(ledger.spent), ledger.burn_rate()
    return {
        "table": ledger.table,
        "currency": ledger.currency,
        "cap": cap,
        "spent": spent,
        "epsilon_remaining": ledger.epsilon_remaining,
        "delta": ledger.shown_delta,
        "guarantee": str(ledger.guarantee()),
        "rate": None if rate.per_month is None else str(rate),
        "steps": [
            {"when": when.date().isoformat(), "label": label, "share": share}
            for when, label, share in rate.steps[-MOST_STEPS:]
        ],
    }


class Job:
    """One release: how far it is, and what it made. Runs in a thread of its own."""

    def __init__(self, wanted: Releasing, *, data: Path, folder: Path, ledger: Path | None) -> None:
        self._wanted, self._data, self._folder, self._ledger = wanted, data, folder, ledger
        self._stage, self._done = 0, 0.0
        self._failed: Refused | None = None
        self._told: dict[str, Any] | None = None
        self.made: dict[str, Path] = {}

    @property
    def over(self) -> bool:
        return self._failed is not None or self._told is not None

    def standing(self) -> dict[str, Any]:
        """How far it is: the stage, the share of it that is done, and at the end the files."""
        if self._failed is not None:
            return {"state": "refused", **self._failed.to_json()}
        if self._told is not None:
            return {"state": "done", **self._told}
        return {
            "state": "running",
            "stage": self._stage + 1,
            "of": len(STAGES),
            "label": STAGES[self._stage],
            "stages": list(STAGES),
            "done": (self._stage + min(self._done, 1.0)) / len(STAGES),
        }

    def run(self) -> None:
        """Make the release. A refusal is kept for the page to show; of any other error only that there was one."""
        try:
            self._run()
        except (ValueError, LookupError) as error:
            self._failed = refusal_of(error)
        finally:
            if not self.over:
                self._failed = internal()

    def _run(self) -> None:
        wanted = self._wanted
        schema = Schema.from_dict(wanted.declared)
        workload = questions_of(schema, wanted.workload)
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", schema.name).strip(".-") or "table"
        names = (f"{plain}.conspectus", f"{plain}-report.html", f"{plain}.toml")
        paths = [_free(self._folder, name) for name in names]
        with cs.open_table(str(self._data), schema) as table:
            release = cs.release(
                table,
                workload,
                epsilon=wanted.epsilon,
                delta=wanted.delta,
                mechanism=wanted.mechanism,
                ledger=self._ledger,
                progress=self._tell,
            )
        self._stage, self._done = 2, 0.0
        release.save(paths[0])
        paths[2].write_text(schema_text(schema), encoding="utf-8")
        self._stage = 3
        write_report(release, paths[1], ledger=self._ledger, source=paths[0])
        self.made = {path.name: path for path in paths}
        self._told = self._summary(release, paths)

    def _tell(self, what: str, done: int, total: int | None) -> None:
        if what != "counting":
            self._stage = 1
        self._done = done / total if total else 0.0

    def _summary(self, release: Release, paths: list[Path]) -> dict[str, Any]:
        keep = [self._data, *([self._ledger] if self._ledger is not None else [])]
        return {
            "guarantee": guarantee_json(release.guarantee),
            "mechanism": release.mechanism,
            "questions": release.questions,
            "rows": release.total.rows,
            "rows_public": release.total.exact,
            "certificate": certificate_json(release),
            "folder": str(self._folder),
            "publish": [{"name": path.name, "bytes": path.stat().st_size} for path in paths],
            "keep": [{"name": path.name, "bytes": path.stat().st_size} for path in keep],
            "table": self._first_table(release),
        }

    def _first_table(self, release: Release) -> dict[str, Any] | None:
        """The first column's table, as readers will see it."""
        column = release.schema.columns[0]
        if column.size > 30 or not release.counts_rows:
            return None
        made = release.table([column.name]).to_pydict()
        cells = zip(made[column.name], made["count"], made["low"], made["high"], made["too_noisy"])
        keys = ("label", "count", "low", "high", "too_noisy")
        return {"column": column.name, "cells": [dict(zip(keys, cell)) for cell in cells]}


def _free(folder: Path, name: str) -> Path:
    """A path in the folder that no file has yet: nothing is ever written over."""
    stem, dot, ending = name.rpartition(".")
    tries = (folder / (name if number == 1 else f"{stem}-{number}{dot}{ending}") for number in range(1, 10_000))
    return next(path for path in tries if not path.exists())
