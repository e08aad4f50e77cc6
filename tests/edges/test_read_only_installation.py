"""An installation that nobody may write to, run by somebody without a home: a container's usual state.

Kernels keep their machine code on disk where they can. Here they cannot, neither beside the package nor in a home
directory, and have to be compiled anew in every process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import conspectus

RELEASE = """
import importlib, pkgutil
import pyarrow as pa
import conspectus as cs

schema = cs.Schema.from_dict(
    {"columns": {"sex": {"type": "categorical", "values": ["f", "m"]}, "ill": {"type": "boolean"}}}
)
table = cs.open_table(pa.table({"sex": ["f", "m", "m"] * 20, "ill": [True, False, True] * 20}), schema)
questions = cs.marginals(schema, 2) + cs.parities(schema, 2) + cs.sql(schema, ["sex = 'f' AND ill"])
release = cs.release(table, questions, epsilon=1.0, mechanism="laplace")
for module in pkgutil.walk_packages(cs.__path__, "conspectus."):
    if module.name != "conspectus.__main__":
        for value in list(vars(importlib.import_module(module.name)).values()):
            if type(value).__name__ == "_Kernel":
                value.made()
print(cs.__file__, len(release.answers))
"""

UNCACHED = """
from conspectus.compiled import compiled

@compiled
def doubled(number):
    return 2 * number

assert doubled(21) == 42
print(type(doubled.made()._cache).__name__)
"""


@pytest.fixture(scope="module")
def installation() -> Iterator[Path]:
    """The package in a folder that everybody may read and nobody may write to."""
    folder = Path(tempfile.mkdtemp(prefix="conspectus-read-only-"))
    package = folder / "conspectus"
    try:
        shutil.copytree(Path(conspectus.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (*package.rglob("*"), package, folder):
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield folder
    finally:
        for path in (folder, package, *package.rglob("*")):
            path.chmod(0o755)
        shutil.rmtree(folder)


POWERLESS = ("setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search,-fowner")
"""Permissions do not stop the superuser. Without these powers they do."""


def run(installation: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program there, as somebody who has no home and may not write beside the package."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    surroundings = {**kept, "HOME": "/dev/null/nowhere", "PYTHONPATH": str(installation)}
    start = POWERLESS if os.geteuid() == 0 else ()
    command = [*start, sys.executable, "-B", "-c", program]
    return subprocess.run(command, env=surroundings, cwd="/", capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def reader(installation: Path) -> None:
    """Skip where nobody can be had who may read the package and not write to it."""
    try:
        found = run(installation, f"open({str(installation / 'conspectus' / 'x')!r}, 'w')")
    except OSError as problem:
        pytest.skip(f"the superuser cannot give up its powers here: {problem}")
    if "PermissionError" not in found.stderr:
        pytest.skip(f"the superuser cannot give up its powers here: {found.stderr[-200:]}")


@pytest.mark.usefixtures("reader")
def test_numba_has_nowhere_to_keep_machine_code_there(installation: Path) -> None:
    program = "from numba import njit\nfrom conspectus import compiled\n"
    program += "njit(cache=True)(compiled.processors)"
    found = run(installation, program)
    assert "no locator available" in found.stderr


@pytest.mark.usefixtures("reader")
def test_a_release_is_made_without_a_cache(installation: Path) -> None:
    found = run(installation, RELEASE)
    assert found.returncode == 0, found.stderr
    place, answers = found.stdout.split()
    assert place.startswith(str(installation))
    assert int(answers) == 6
    assert not list(installation.rglob("__pycache__"))


def test_a_kernel_without_a_locator_runs_uncached() -> None:
    """The same, whoever runs it: no place is found, as numba would have it."""
    program = "from numba.core import caching\ncaching.CacheImpl._locator_classes = []\n" + UNCACHED
    # A program that is given as text has no file, and numba wants one to tell versions apart.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(program, encoding="utf-8")
        surroundings = {**os.environ, "PYTHONPATH": str(Path(conspectus.__file__).parents[1])}
        found = subprocess.run(
            [sys.executable, "-B", str(path)], env=surroundings, capture_output=True, text=True, check=False
        )
    assert (found.returncode, found.stdout.strip()) == (0, "NullCache"), found.stderr
