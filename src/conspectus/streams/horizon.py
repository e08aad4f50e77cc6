"""How time is cut into binary trees, and how many noises are between two moments."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from conspectus.mechanisms.mechanism import Problem
from conspectus.privacy.events import Noise
from conspectus.queries.sensitivity import Sensitivity

MOST_LEVELS = 40
"""The longest stream has 2⁴⁰ steps: one a second for 34,000 years."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Steps `start` … `start + 2^levels − 1`, with this noise on the counter and on every interval."""

    start: int
    levels: int
    law: Noise

    @property
    def end(self) -> int:
        """The first step after it."""
        return self.start + (1 << self.levels)

    def between(self, first: int, last: int) -> int:
        """How many noises the difference of the outputs at two of its steps has: the counter's is in both."""
        first, last = first - self.start, last - self.start
        return 2 * sum(first >> level != last >> level for level in range(self.levels))


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """One tree for a horizon that is known, or trees that double where it is not."""

    problem: Problem
    moved: Sensitivity
    steps: int | None

    def tree_at(self, step: int) -> Tree:
        """The tree that a step is in."""
        if self.steps is not None:
            return self._tree(0, (self.steps - 1).bit_length())
        # Trees of 1, 2, 4, … steps: the e-th starts at 2^e − 1.
        levels = (step + 1).bit_length() - 1
        return self._tree((1 << levels) - 1, levels)

    def going_on(self, steps: int) -> set[int]:
        """The levels of the intervals that go on after so many steps."""
        if not steps:
            return set()
        tree = self.tree_at(steps - 1)
        return {level for level in range(tree.levels) if (steps - tree.start) % (1 << level)}

    def _tree(self, start: int, levels: int) -> Tree:
        times, moved = 1 + levels, self.moved
        shifted = Sensitivity(moved.l1 * times, moved.l2_squared * times, moved.linf)
        price = self._price_of_first if self.steps is None and levels else self.problem.cap
        return Tree(start=start, levels=levels, law=self.problem.law(shifted, price))

    @cached_property
    def _price_of_first(self) -> Fraction:
        """What the first of the trees that double costs exactly: it alone is debited, so no later one costs more.

        Its scale was rounded up, so that it is a little below what may be spent.
        """
        law = self.problem.law(self.moved, self.problem.cap)
        scale = Fraction(law.scale)
        if law.kind == "laplace":
            return Fraction(max(self.moved.l1, 1)) / scale
        return Fraction(max(self.moved.l2_squared, 1)) / (2 * scale * scale)

    def trees_until(self, step: int) -> list[Tree]:
        """All trees up to the one that a step is in."""
        found = [self.tree_at(0)]
        while found[-1].end <= step:
            found.append(self.tree_at(found[-1].end))
        return found

    def noises(self, first: int, last: int) -> tuple[Noise, int]:
        """The widest law, and how many noises are in the count of steps `first` … `last`, at most.

        A sum of symmetric noises whose densities fall from the middle only widens when one of them does.
        """
        terms, law = 0, self.tree_at(last).law
        for tree in self.trees_until(last):
            until = min(tree.end - 1, last)
            if first <= tree.start:
                terms += 1 + tree.levels
            elif first < tree.end:
                terms += tree.between(first - 1, until)
        return law, terms

    def alike(self, first: int, last: int) -> bool:
        """Whether all noises in the count of steps `first` … `last` have the law that `noises` tells."""
        law = self.tree_at(last).law
        return all(tree.law == law for tree in self.trees_until(last) if first < tree.end)
