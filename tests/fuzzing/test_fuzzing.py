"""A few hundred cases of each fuzzer; `make audit` runs 20,000 and 100,000."""

from __future__ import annotations

import io
import re
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.fuzzing import answered_selects, commands, grown_files, grown_rows, predicates, selects, workload_files
from tests.fuzzing.grammar import RULES
from tests.fuzzing.select_grammar import Case, Number

from conspectus.cli import app
from conspectus.data.sources.sql_functions import FUNCTIONS
from conspectus.privacy.relation import Relation
from conspectus.queries import from_json
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.sensitivity import Sensitivity


def test_accepted_selects_read_all_rows_of_extreme_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, for speed: here a crash would end the tests, and it should."""
    monkeypatch.setattr("conspectus.data.sources.sql.Connection", selects.shared)
    bench = selects.Bench(tmp_path)
    counts: Counter[str] = Counter()
    for number in range(120):
        case = selects.case_of(5, number)
        verdict, said = bench.judged(case, both=number % 8 == 0)
        assert verdict != "stopped", (number, said, case)
        counts[verdict] += 1
    assert counts["accepted"] > 36
    assert counts["refused"] > 6


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


def test_selects_are_answered_as_a_database_does_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    counts = answered_selects.run(seed=5, count=120)
    assert counts["wrong"] == 0, capsys.readouterr().out
    assert min(counts["answered"], counts["refused"]) > 25


@pytest.mark.parametrize(
    "left_out",
    [
        "conspectus.queries.language.scaled.check_casts",
        "conspectus.queries.language.measures.check_casts",
        "conspectus.queries.language.from_select.check_understood",
    ],
)
def test_the_fuzzer_sees_a_select_that_is_misread(
    left_out: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The twins: with casts passed over, or clauses that nobody looks at, wrong numbers come out, and that is found."""
    monkeypatch.setattr(left_out, lambda *arguments, **options: None)
    bench = answered_selects.Bench()
    misread = [
        Case(numbers=(Number("CAST(AVG(age) AS INTEGER)", "n0"),)),
        Case(numbers=(Number("SUM(CAST(age AS BOOLEAN))", "n0"),)),
        Case(("g",), (Number("COUNT(*)", "n0"),), grouped=("g",), limit="LIMIT 50%"),
    ]
    assert "wrong" in {bench.judged(case, asked=False)[0] for case in misread}


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


def test_changed_workload_files_are_refused_or_state_their_sensitivity(capsys: pytest.CaptureFixture[str]) -> None:
    counts = workload_files.run(seed=5, count=480)
    assert counts["broken"] == 0, capsys.readouterr().out
    assert min(counts["accepted"], counts["refused"]) > 40


def test_changed_files_of_linear_queries_and_trees_state_their_sensitivity(capsys: pytest.CaptureFixture[str]) -> None:
    counts = workload_files.run(seed=5, count=120, later=True)
    assert counts["broken"] == 0, capsys.readouterr().out
    assert min(counts["accepted"], counts["refused"]) > 10


def test_the_fuzzer_sees_an_understated_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: sums of values priced as if no row had a weight above a half."""
    real = LinearQueries.sensitivity

    def less(block: LinearQueries, relation: Relation) -> Sensitivity:
        said = real(block, relation)
        return Sensitivity(said.l1 // 2, said.l2_squared // 4, said.linf // 2)

    monkeypatch.setattr(LinearQueries, "sensitivity", less)
    assert workload_files.run(seed=5, count=20, later=True)["broken"] > 0


def test_the_fuzzer_sees_an_understated_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with boxes spelled in any way, one question counts as many disjoint cells, and that is found."""
    assert workload_files.run(seed=5, count=160)["broken"] == 0
    monkeypatch.setattr("conspectus.queries.blocks.conjunction_list._check", lambda block: None)
    monkeypatch.setattr(from_json, "LISTINGS", ())
    assert workload_files.run(seed=5, count=160)["broken"] > 0


def test_short_files_that_say_large_numbers_are_read_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    counts = grown_files.run(seed=5, count=3 * len(grown_files.KINDS))
    assert counts["broken"] == 0, capsys.readouterr().out
    assert min(counts["read"], counts["refused"]) > 3


def test_grown_files_that_are_gone_on_with_are_read_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    counts = grown_files.run(seed=5, count=4 * len(grown_rows.KINDS), later=True)
    assert counts["broken"] == 0, capsys.readouterr().out
    assert min(counts["read"], counts["refused"]) > 3


def test_the_fuzzer_sees_what_takes_too_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The twin: a reader that takes more than the length of a file explains, whatever machine it is."""
    monkeypatch.setattr(grown_files, "SECONDS", 0.0)
    counts = grown_files.run(seed=5, count=2)
    assert counts["broken"] == 2, capsys.readouterr().out


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> commands.Bench:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))  # a session asks for questions
    monkeypatch.setattr(app, "app", app.app)  # which a bench replaces
    return commands.Bench(tmp_path)


def test_changed_files_end_commands_in_one_of_four_ways(bench: commands.Bench) -> None:
    """In this process, for speed; `command_files` puts 100,000 through processes of their own."""
    counts: Counter[str] = Counter()
    for number in range(3 * len(commands.KINDS)):
        verdict, said = bench.judged(5, number)
        assert verdict != "stopped", (number, commands.kind_of(number), said)
        counts[verdict] += 1
    assert min(counts["accepted"], counts["refused"]) > 10


def test_changed_files_of_later_kinds_end_commands_in_one_of_four_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.setattr(app, "app", app.app)
    later = commands.Bench(tmp_path, later=True)
    counts: Counter[str] = Counter()
    for number in range(4 * len(commands.LATER)):
        verdict, said = later.judged(5, number)
        assert verdict != "stopped", (number, commands.kind_of(number, later=True), said)
        counts[verdict] += 1
    assert min(counts["accepted"], counts["refused"]) > 5


def test_the_fuzzer_sees_what_escapes_a_command(bench: commands.Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: where nobody says what is wrong with a file, a command ends with another code, and that is found."""
    monkeypatch.setattr("conspectus.synopses.files.faithful", nullcontext)
    verdicts = Counter(bench.judged(5, number)[0] for number in range(60) if commands.kind_of(number) == "synopsis")
    assert verdicts["stopped"] > 0
