"""Cells that a stream counted: each has the sum of several draws of noise, independent from cell to cell.

Where time is cut into trees that double, the draws of earlier trees are narrower than those of the last one, whose law
is told. A single count is then no farther off than is told, as all draws lie on one lattice. In a sum with weights they
do not, and its margin is taken at half of the failure probability, by the contraction principle (Ledoux & Talagrand
1991, Theorem 4.4). Let S = Σ w·Z be the true noise of a sum, and T = Σ w·Y that of draws Y which all have the told law.
The sizes of a noise and of a wider one of its kind have a ratio of chances that rises with the size, so that both can
be drawn with |Z| ≤ |Y| and with one sign, which is independent of the sizes. Given all sizes, S and T are sums with
the same random signs, those of S of smaller numbers: P(|S| > t) ≤ 2·P(|T| > t). As both are symmetric, this holds on
either side alone, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from conspectus.synopses.stream_answers import StreamAnswers

from .cell_estimates import CellCounts, Vector
from .known_cells import AddingUp


@dataclass(frozen=True, eq=False, kw_only=True)
class NarrowerCells(CellCounts):
    """Cells of whose draws some may be narrower than their law says; see the module."""

    def margin(self, weights: Vector, failure: float) -> float:
        """How far a weighted sum of the cells is off at most, but for this probability."""
        return super().margin(weights, failure / 2)


@dataclass(frozen=True, eq=False, kw_only=True)
class NarrowerAddingUp(NarrowerCells, AddingUp):
    """The same, moved so that they add up to a public number of events."""


def stream_cells(stream: StreamAnswers, columns: tuple[int, ...]) -> CellCounts | None:
    """The cells of some columns in schema order, as a stream counted them; None where no counted marginal has them."""
    if (found := stream.cells(columns)) is None:
        return None
    counts, many = found
    plain, moved = (CellCounts, AddingUp) if stream.alike else (NarrowerCells, NarrowerAddingUp)
    copies = stream.terms * many
    cells = plain(counts=counts, measured=counts, law=stream.law, grid=stream.workload.grid, copies=copies)
    return moved.of(cells, stream.total.value) if stream.total.exact and stream.adding_up else cells
