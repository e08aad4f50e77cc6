"""Which lines of the rooms on which privacy rests the tests run, at hardly any cost.

Before Python 3.12 a tracer slows down every function of the process, also those that nobody asked about, and a third of
the time of the tests goes to it. So each statement of these rooms is preceded by one that sets a byte when it is
reached, and nothing else is touched. `coverage` reads the lines from a file and reports them as it does its own.

Never more is said to have run than has: the line of an `except` or a `case` counts once its body begins. Kernels stay
as they are, because numba would read the marks: pyproject.toml leaves them out of the report.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOMS = ("conspectus.privacy", "conspectus.curator")
MARKS = "__marks__"
"""What a marked module calls its bytes, one for each line."""


class _Marking(ast.NodeVisitor):
    """Puts a mark before every statement."""

    def generic_visit(self, node: ast.AST) -> None:
        leads = node.pattern if isinstance(node, ast.match_case) else node
        before = [leads.lineno] if isinstance(node, ast.match_case | ast.ExceptHandler) else []
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                for statement in value:
                    self.visit(statement)
                setattr(node, name, _with_marks(value, before))
            elif isinstance(value, list) and value and isinstance(value[0], ast.match_case | ast.ExceptHandler):
                for part in value:
                    self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if not any(_compiles(decorator) for decorator in node.decorator_list):
            self.generic_visit(node)


def _with_marks(statements: list[ast.stmt], before: list[int]) -> list[ast.stmt]:
    """The statements with a mark before each, and first marks of the lines that lead to them."""
    found = [_mark(line, statements[0]) for line in before]
    for number, statement in enumerate(statements):
        lines = [decorator.lineno for decorator in getattr(statement, "decorator_list", [])] + [statement.lineno]
        marks = [_mark(line, statement) for line in lines]
        if number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            found.append(statement)  # a docstring, which stays the first and is never run
        elif isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            found += [statement, *marks]  # which nothing may precede
        else:
            found += [*marks, statement]
    return found


def _mark(line: int, beside: ast.stmt) -> ast.stmt:
    mark = ast.parse(f"{MARKS}[{line}] = 1").body[0]
    for node in ast.walk(mark):
        ast.copy_location(node, beside)
    return mark


def _compiles(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id in ("compiled", "njit", "intrinsic")


def marked(source: str, path: str) -> CodeType:
    """The code of a module with a mark before every statement."""
    tree = ast.parse(source, path)
    _Marking().visit(tree)
    return compile(tree, path, "exec", dont_inherit=True)


class Lines(MetaPathFinder):
    """Marks modules of the rooms while they are imported, and keeps what they set."""

    def __init__(self) -> None:
        self._marks: dict[str, bytearray] = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(tuple(f"{room}." for room in ROOMS)) and name not in ROOMS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path, self._marks)
        return spec

    def write(self, path: Path) -> None:
        """What was run, as a file of `coverage`; modules that nobody imported are in it, without a line."""
        from coverage import CoverageData

        data = CoverageData(basename=str(path))
        data.add_lines({name: [line for line, seen in enumerate(marks) if seen] for name, marks in self._marks.items()})
        for room in ROOMS:
            origin = Path(str(importlib.util.find_spec(room).origin))
            data.touch_files([str(module) for module in sorted(origin.parent.rglob("*.py"))])
        data.write()


class _Loader(SourceFileLoader):
    """Reads a module anew, never as bytecode that was written without marks, and never writes any with them."""

    def __init__(self, name: str, path: str, marks: dict[str, bytearray]) -> None:
        super().__init__(name, path)
        self._marks = marks

    def get_code(self, name: str) -> CodeType:
        return marked(self.get_data(self.path).decode("utf-8"), self.path)

    def exec_module(self, module: ModuleType) -> None:
        lines = self.get_data(self.path).count(b"\n") + 2
        vars(module)[MARKS] = self._marks.setdefault(self.path, bytearray(lines))
        super().exec_module(module)


def watch() -> Lines:
    """From now on; what is imported already would be missed."""
    early: list[Any] = [name for name in sys.modules if name.startswith(ROOMS)]
    assert not early, f"imported before their lines could be marked: {early}"
    lines = Lines()
    sys.meta_path.insert(0, lines)
    return lines
