"""What the documentation site makes by itself: the reference of public names, the proof notes and the notebooks.

Pages in docs/ link to files as they lie in the repository, so that they can be read there. Of those files outside docs/
the site has its own copy, and links are turned to it. Nothing here is a list to keep: public names come from
`conspectus.__all__`, notes from `src/**/*.proof.md`, notebooks from `examples/`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
NAMES, NOTES = "<!-- every public name -->", "<!-- every proof note -->"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)

if str(SOURCE) not in sys.path:
    sys.path.insert(0, str(SOURCE))


def copies() -> dict[Path, str]:
    """Every file outside docs/ that the site shows, and as which page."""
    found = {ROOT / f"{name.upper()}.md": f"{name}.md" for name in ("contributing", "security", "changelog")}
    for note in sorted(SOURCE.rglob("*.proof.md")):
        inside = note.relative_to(SOURCE / "conspectus").as_posix()
        found[note] = "proofs/" + inside.removesuffix(".proof.md") + ".md"
    for notebook in sorted((ROOT / "examples").glob("*.ipynb")):
        found[notebook] = f"examples/{notebook.stem}.md"
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    shown = copies()
    for path, page in shown.items():
        text = notebook(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=relinked(text, path, page, shown)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    if NAMES in markdown:
        markdown = markdown.replace(NAMES, reference())
    shown = copies()
    if NOTES in markdown:
        markdown = markdown.replace(NOTES, listed(shown))
    if page.file.generated_by:
        return markdown
    return relinked(markdown, ROOT / "docs" / page.file.src_uri, page.file.src_uri, shown)


def relinked(markdown: str, path: Path, page: str, shown: dict[Path, str]) -> str:
    """The links of a file that lies at `path`, as links of the page that shows it.

    What the site does not show becomes plain text. What does not exist stays, for the strict build to find.
    """

    def turn(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        if re.match(r"[a-z]+:", target):
            return link[0]
        there = Path(os.path.normpath(path.parent / target))
        inside = there.is_relative_to(ROOT / "docs") and there.is_file()
        if there == ROOT / "README.md":
            to = "index.md"
        elif inside:
            to = there.relative_to(ROOT / "docs").as_posix()
        elif there in shown:
            to = shown[there]
        else:
            return text if there.exists() and there.is_relative_to(ROOT) else link[0]
        return f"[{text}]({os.path.relpath(to, os.path.dirname(page) or '.')}{anchor})"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(turn, part) for part in parts)


def notebook(path: Path) -> str:
    """A notebook as a page: its words and its code, without outputs."""
    pieces = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        pieces.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join(pieces) + "\n"


def listed(shown: dict[Path, str]) -> str:
    """The proof notes, room by room, each with what it proves."""
    lines, room = [], None
    for path, page in shown.items():
        if not page.startswith("proofs/"):
            continue
        inside = page.removeprefix("proofs/").removesuffix(".md")
        if inside.partition("/")[0] != room:
            room = inside.partition("/")[0]
            lines.append(f"\n## {room}\n")
        headings = re.findall(r"^##+ +(.*?) *$", path.read_text(encoding="utf-8"), re.MULTILINE)
        about = f": {', '.join(headings)}" if headings else ""
        lines.append(f"- [{inside}]({page}){about}")
    return "\n".join(lines)


def reference() -> str:
    """One entry for each public name, then one for each class that a user gets from them."""
    conspectus = importlib.import_module("conspectus")
    public = {name: getattr(conspectus, name) for name in conspectus.__all__ if not name.startswith("__")}
    lines = ["## Names to type"]
    for name, value in sorted(public.items(), key=lambda pair: (pair[0].lower(), pair[0])):
        lines += entry(home(value), f"cs.{name}", members=not inspect.isfunction(value))
    lines.append("\n## What they return")
    for kind in sorted(returned(public.values()), key=lambda kind: (kind.__name__, kind.__module__)):
        lines += entry(home(kind), kind.__name__, members=True)
    return "\n".join(lines)


def home(value: Any) -> str:
    """Where a public thing is defined: the address by which its source is found."""
    if isinstance(value, ModuleType):
        return value.__name__
    return f"{value.__module__}.{value.__qualname__}"


def entry(address: str, heading: str, *, members: bool) -> Iterator[str]:
    yield f"\n::: {address}"
    yield "    options:"
    yield "      heading_level: 3"
    yield f'      heading: "{heading}"'
    yield f'      toc_label: "{heading}"'
    yield f"      members: {'null' if members else 'false'}"


def returned(values: Iterable[Any]) -> set[type]:
    """The classes of ours that functions return and that methods and fields of classes hold, beyond the public ones."""
    public = list(values)
    met: set[type] = set()
    new = [kind for value in public for kind in handed_out(value)]
    for _ in range(2):  # what a function returns, and what one gets from that
        new = [kind for kind in new if kind not in public and kind not in met]
        met.update(new)
        new = [found for kind in new for found in handed_out(kind)]
    return met


def handed_out(value: Any) -> Iterator[type]:
    """The classes that a call of a function returns, or that the public methods and properties of a class do."""
    if inspect.isclass(value):
        for name, member in vars(value).items():
            if name.startswith("_"):
                continue
            if isinstance(member, property):
                member = member.fget
            elif isinstance(member, classmethod | staticmethod):
                member = member.__func__
            if inspect.isfunction(member):
                yield from ours(hints(member).get("return"))
        for name, hint in hints(value).items():
            if not name.startswith("_"):
                yield from ours(hint)
    elif inspect.isfunction(value):
        yield from ours(hints(value).get("return"))


def hints(value: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(value))
    except (NameError, TypeError):  # a name that is imported for the type checker alone
        return {}


def ours(hint: Any) -> Iterator[type]:
    """The classes of this package in an annotation."""
    if inspect.isclass(hint) and hint.__module__.split(".")[0] == "conspectus":
        if not getattr(hint, "_is_protocol", False):
            yield hint
        return
    for part in typing.get_args(hint):
        yield from ours(part)
