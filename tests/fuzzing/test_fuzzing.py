"""A few hundred cases of each fuzzer; `make audit` runs 20,000."""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.fuzzing import predicates, selects
from tests.fuzzing.grammar import RULES

from conspectus.data.sources.sql_functions import FUNCTIONS


def test_accepted_selects_read_all_rows_of_extreme_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, for speed: here a crash would end the tests, and it should."""
    monkeypatch.setattr("conspectus.data.sources.sql.Connection", selects.shared)
    bench = selects.Bench(tmp_path)
    counts: Counter[str] = Counter()
    for number in range(200):
        case = selects.case_of(5, number)
        verdict, said = bench.judged(case, both=number % 8 == 0)
        assert verdict != "stopped", (number, said, case)
        counts[verdict] += 1
    assert counts["accepted"] > 60
    assert counts["refused"] > 10


def test_the_fuzzer_sees_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with the types of values unchecked, a value stops a pass, and that is found."""
    bench = selects.Bench(tmp_path)
    case = selects.Case("SELECT i64 AS x, TRY_CAST(s AS BIGNUM)::TINYINT AS k FROM {t}", 0, True, "parquet")
    assert bench.judged(case, both=True)[0] == "refused"
    monkeypatch.setattr("conspectus.data.sources.rowwise.check_cast", lambda part: part.update(try_cast=True))
    monkeypatch.setattr("conspectus.data.sources.sql.check_types", lambda levels, bind: None)
    assert bench.judged(case, both=True)[0] == "stopped"


def test_the_grammar_speaks_of_every_function() -> None:
    said = " ".join(rule for rules in RULES.values() for rule in rules).casefold()
    spelled = {
        **{"~~": "like", "!~~": "not like", "~~*": "ilike", "!~~*": "ilike", "~~~": "glob", "list_value": "["},
        **{
            "datepart": "date_part",
            "substr": "substring",
            "ucase": "upper",
            "lcase": "lower",
            "character_length": "len",
        },
    }
    words = set(re.findall(r"[a-z_0-9]+", said))
    for name in FUNCTIONS:
        assert spelled.get(name, name) in (words if name.isidentifier() and name not in spelled else said), name


def test_predicates_are_read_or_refused_by_our_own_errors(capsys: pytest.CaptureFixture[str]) -> None:
    counts = predicates.run(seed=5, count=400)
    assert counts["escaped"] == 0, capsys.readouterr().out
    assert min(counts["read"], counts["refused"]) > 20


def test_a_dead_worker_is_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner counts a case whose process ended, and goes on with the next one."""
    lines = iter(
        ['[0, "begun", ""]\n[0, "accepted", ""]\n[1, "begun", ""]\n', '[2, "begun", ""]\n[2, "refused", "a"]\n']
    )

    class Worker:
        returncode = -11

        def __init__(self, *arguments: object, **options: object) -> None:
            self.stdout = io.StringIO(next(lines))

        def __enter__(self) -> Worker:
            return self

        def __exit__(self, *problem: object) -> None: ...

        def kill(self) -> None: ...

    monkeypatch.setattr(selects.subprocess, "Popen", Worker)
    monkeypatch.setattr(selects, "_ready", lambda stream: True)
    assert [verdict for _, verdict, _ in selects.run(1, 3)] == ["accepted", "stopped", "refused"]
