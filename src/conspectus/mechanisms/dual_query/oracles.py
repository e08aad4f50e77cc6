"""The best row against weighted queries: DualQuery's data player. Everything here is post-processing of what was drawn.

By default a local search from rows that are given. On request the exact best row, by CP-SAT with a time limit; its
value is recomputed by the definition. Privacy rests on neither: an oracle sees nothing but what was drawn.
"""

from __future__ import annotations

import importlib.util
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Codes

from .clauses import Clauses
from .local_search import Incidence, climb

TIME_LIMIT = 20.0
"""Seconds that the exact oracle may take for one row, as in the source; then its best row so far is taken."""


class OracleError(RuntimeError):
    """An oracle that cannot be used here, or whose value is not that of its row."""


@dataclass(frozen=True, eq=False)
class Response:
    """Rows (one code for each column of the domain), what each is worth, and whether that is proved to be the most."""

    rows: Codes
    values: NDArray[np.int64]
    optimal: bool = False


def search(
    clauses: Clauses,
    starts: Codes,
    *,
    values: NDArray[np.int64] | None = None,
    restarts: int = 1,
    rng: np.random.Generator,
    pool: Executor | None = None,
) -> Response:
    """Rows by local search, one for each line of `values` (values of the clauses, boxes then parities).

    `starts` holds `restarts` rows for each line, one after another, over all columns; columns that no clause reads keep
    the value of the start that won.
    """
    if values is None:
        values = np.concatenate([clauses.box_values, clauses.parity_values])[None]
    incidence = Incidence.of(clauses)
    held = np.ascontiguousarray(starts[:, incidence.columns], dtype=np.int64)
    orders = rng.permuted(np.tile(np.arange(len(incidence.columns)), (len(held), 1)), axis=1)
    lines = np.repeat(values, restarts, axis=0)
    if pool is None or len(held) < 2:
        worth = climb(incidence, lines, held, orders)
    else:
        parts = np.array_split(np.arange(len(held)), min(len(held), 8))
        jobs = [
            pool.submit(climb, incidence, lines[part[0] : part[-1] + 1], held[part[0] : part[-1] + 1], orders[part])
            for part in parts
        ]
        worth = np.concatenate([job.result() for job in jobs])
    best = worth.reshape(-1, restarts).argmax(axis=1) + np.arange(len(values)) * restarts
    rows = starts[best]
    rows[:, incidence.columns] = held[best]
    return Response(rows, worth[best])


def exact(clauses: Clauses, start: Codes, *, seconds: float = TIME_LIMIT) -> Response:
    """The best row by integer programming, from the row `start`, which also gives the columns that no clause reads.

    A variable for each code of each column, one of them true; c = 1 for a box of positive value only where all its
    literals hold, and for one of negative value wherever they do. A parity is Σx = 2d + 1 − c.
    """
    solver_kit = _cp_model()
    model = solver_kit.CpModel()
    codes: dict[int, list[Any]] = {}
    for column in clauses.columns.tolist():
        size = int(clauses.literals.sizes[column])
        first = model.new_bool_var("")
        # Two values share one variable; otherwise exactly one of the codes is taken.
        codes[column] = [first.negated(), first] if size == 2 else [model.new_bool_var("") for _ in range(size)]
        if size != 2:
            model.add_exactly_one(codes[column])
        for value, taken in enumerate(codes[column][1:] if size == 2 else codes[column]):
            model.add_hint(taken, int(start[column]) == value + (size == 2))
    literals: dict[int, Any] = {}
    for number in np.unique(clauses.boxes[clauses.boxes >= 0]).tolist():
        column, inside = clauses.literals.codes_of(number)
        literals[number] = sum(codes[column][code] for code in inside.tolist())
    gains = []
    for box, value in zip(clauses.boxes.tolist(), clauses.box_values.tolist()):
        held = [literals[number] for number in box if number >= 0]
        counted = model.new_bool_var("")
        if value > 0:
            model.add(sum(held) >= len(held) * counted)
        elif value < 0:
            model.add(sum(held) <= len(held) - 1 + counted)
        gains.append(value * counted)
    for columns, value in zip(clauses.parities.tolist(), clauses.parity_values.tolist()):
        ones = [codes[column][1] for column in columns if column >= 0]
        counted, pairs = model.new_bool_var(""), model.new_int_var(0, len(ones), "")
        model.add(sum(ones) == 2 * pairs + 1 - counted)
        gains.append(value * counted)
    model.maximize(sum(gains))
    solver = solver_kit.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    if status not in (solver_kit.OPTIMAL, solver_kit.FEASIBLE):
        return Response(start[None].copy(), np.array([clauses.value(start)]))
    row = start.copy()
    for column, taken in codes.items():
        row[column] = next(code for code, chosen in enumerate(taken) if solver.boolean_value(chosen))
    value = clauses.value(row)
    if value != round(solver.objective_value):
        raise OracleError("the solver's value is not that of its row: the integer program is wrong")
    return Response(row[None], np.array([value]), optimal=status == solver_kit.OPTIMAL)


def available() -> bool:
    """Whether the exact oracle can be used here."""
    return importlib.util.find_spec("ortools") is not None


def _cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as missing:
        raise OracleError(
            'the exact oracle needs OR-Tools: install "conspectus[exact]", or leave oracle="exact" out'
        ) from missing
    return cp_model
