"""What foreign code raises stays inside, a KeyboardInterrupt too; Ctrl-C leaves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pandas as pd
import pytest
from tests.made import people

import conspectus as cs
from conspectus.interrupts import attentive, pressed

SCHEMA, TABLE = people(200)
NAMES = cs.Schema.from_dict({"name": "n", "columns": {"a": {"type": "categorical", "values": ["x"], "missing": True}}})


class Hostile:
    """An object that stops whoever reads it."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __hash__ = __index__ = __float__ = __bytes__ = __str__


@pytest.fixture(autouse=True, params=["at a keyboard", "in the background"])
def handler(request: pytest.FixtureRequest) -> Iterator[object]:
    """Who listens to Ctrl-C: Python, or nobody, as in the background of a shell, which has the system ignore it."""
    before = signal.getsignal(signal.SIGINT)
    now = signal.default_int_handler if request.param == "at a keyboard" else signal.SIG_IGN
    signal.signal(signal.SIGINT, now)
    yield now
    signal.signal(signal.SIGINT, before)


at_a_keyboard = pytest.mark.parametrize("handler", ["at a keyboard"], indirect=True)


def hostile(codes: object) -> float:
    raise KeyboardInterrupt


def pressed_once(codes: object) -> float:
    signal.raise_signal(signal.SIGINT)
    return 0.5


def test_a_function_that_raises_it_is_no_number() -> None:
    """Whether it did may depend on the rows: it once ended the run, after the debit and before the noise."""
    asked = cs.unsafe_functions(SCHEMA, {"hostile": (hostile, 0.01)}, fallback=0.0)
    before = signal.getsignal(signal.SIGINT)
    release = cs.release(TABLE, asked, epsilon=5.0, mechanism="laplace")
    assert abs(release.answers[0]) < 0.2
    assert signal.getsignal(signal.SIGINT) is before


@at_a_keyboard
def test_whoever_presses_stops_a_function() -> None:
    asked = cs.unsafe_functions(SCHEMA, {"long": (pressed_once, 0.01)})
    with pytest.raises(KeyboardInterrupt):
        cs.release(TABLE, asked, epsilon=5.0, mechanism="laplace")


def test_an_object_that_raises_it_is_a_missing_value() -> None:
    frame = pd.DataFrame({"a": pd.Series(["x", Hostile(), "x"], dtype=object)})
    for table in (cs.open_table(frame, NAMES), cs.open_records(["x", Hostile(), "x"]), cs.open_records(frame)):
        with table:
            assert cs.release(
                table, cs.overlap(["x"]) if table.schema != NAMES else cs.marginals(NAMES, 1), epsilon=1e3
            )


@at_a_keyboard
def test_ctrl_c_that_foreign_code_swallows_is_not_lost() -> None:
    @attentive()
    def swallowing() -> None:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert pressed()

    with pytest.raises(KeyboardInterrupt):
        swallowing()
    with attentive():
        assert not pressed()
        with attentive():
            assert not pressed()
    assert pressed()  # nobody watches: it may be


@at_a_keyboard
def test_an_error_that_ctrl_c_leaves_behind_does_not_hide_it() -> None:
    def broken() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ConnectionError("the call was cut") from None

    with pytest.raises(KeyboardInterrupt), attentive():
        broken()
    with pytest.raises(ConnectionError), attentive():  # nobody pressed: the error stands
        raise ConnectionError("the line is down")


def test_a_thread_never_receives_it() -> None:
    found: list[bool] = []

    def run() -> None:
        with attentive():
            found.append(pressed())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]
