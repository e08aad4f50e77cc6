"""The marks that stand for coverage, held against a tracer."""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any

import numpy as np
import pytest
from tests.lines_run import MARKS, marked

import conspectus.privacy.exponential as a_marked_room

SAMPLE = '''"""A text first."""
from __future__ import annotations
import functools
VALUE = 3
"""A text after."""
@functools.cache
@functools.cache
def chosen(number):
    """A text."""
    if number == 0:
        return "none"
    elif number < 3:
        found = "few"
    else:
        found = "many"
    for _ in range(number):
        found += "."
        if number == 5:
            break
    else:
        found += "!"
    while number > 7:
        number -= 1
    return found
class Thing:
    """A text."""
    kept = 1
    async def never(self):
        return 2
    def caught(self, value):
        try:
            with open(value) as file:
                return file.read()
        except KeyError:
            return "key"
        except (OSError, TypeError):
            value = "os"
        finally:
            self.done = True
        match value:
            case "none":
                return 1
            case "os":
                return 2
        return 3
if VALUE > 4:
    VALUE = 5
'''
UNREACHED_HEADERS = {"        except KeyError:", '            case "none":'}
"""What a tracer sees on its way to the clause that fits; a mark says only which one did."""


def run(code: types.CodeType, names: dict[str, Any], numbers: list[int]) -> None:
    exec(code, names)
    for number in numbers:
        names["chosen"](number)
    names["Thing"]().caught("/no/such/file")


@pytest.mark.parametrize("numbers", [[], [0], [1], [5], [9], [0, 2, 5, 9]])
def test_marks_are_set_where_a_tracer_passes(numbers: list[int]) -> None:
    seen: set[int] = set()

    def trace(frame: types.FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename == "<sample>":
            if event == "line":
                seen.add(frame.f_lineno)
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run(compile(SAMPLE, "<sample>", "exec"), {"__name__": "sample"}, numbers)
    finally:
        sys.settrace(before)
    marks = bytearray(SAMPLE.count("\n") + 2)
    run(marked(SAMPLE, "<sample>"), {"__name__": "sample", MARKS: marks}, numbers)

    lines = SAMPLE.splitlines()
    texts = {number for number, line in enumerate(lines, 1) if line.strip() in ('"""A text."""', '"""A text first."""')}
    found = set(np.flatnonzero(np.frombuffer(marks, np.uint8)).tolist())
    assert found <= seen, "nothing is said to have run that has not"
    assert {lines[number - 1] for number in seen - found - texts} == UNREACHED_HEADERS


def test_what_is_marked_behaves_as_before() -> None:
    names: dict[str, Any] = {"__name__": "sample", MARKS: bytearray(99)}
    exec(marked(SAMPLE, "<sample>"), names)
    assert [names["chosen"](number) for number in (0, 2, 5, 9)] == ["none", "few..!", "many.", "many.........!"]
    assert (names["__doc__"], names["chosen"].__doc__) == ("A text first.", "A text.")
    assert names["Thing"]().caught("/no/such/file") == 2


def test_kernels_are_left_alone() -> None:
    """Numba would read the marks; and a kernel of the package says so by its decorator."""
    source = inspect.getsource(a_marked_room)
    assert "@compiled" in source
    constants = [each for each in marked(source, "room.py").co_consts if isinstance(each, types.CodeType)]
    kernels = [each for each in constants if each.co_name in ("_sum_blocks", "_locate")]
    assert len(kernels) == 2
    assert all(MARKS not in each.co_names for each in kernels)
    assert any(MARKS in each.co_names for each in constants)
