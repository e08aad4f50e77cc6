"""The folder that is served: its releases, loaded once, and which of its files are live sessions."""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from conspectus.real_path import real_path
from conspectus.releases.release import Release, load
from conspectus.sessions.opening import SIDECAR, terms_of
from conspectus.sessions.store import SessionError
from conspectus.synopses.files import BadSynopsisFile

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ZIP, _SQLITE = b"PK\x03\x04", b"SQLite format 3\0"
_SESSION = 0x436F6E53.to_bytes(4, "big")
"""What a session's file has at byte 68, where SQLite keeps whose file it is."""
_LOOK_AGAIN = 1.0


class FolderError(ValueError):
    """A folder that cannot be served, or a session in it that nobody may have put there."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """One release on the shelf, under its name, as it was when its file was last changed."""

    name: str
    path: Path
    release: Release
    stamp: tuple[int, int]

    @property
    def made(self) -> str:
        """The day on which the file was written."""
        return datetime.fromtimestamp(self.stamp[0] / 1e9, UTC).date().isoformat()


class Shelf:
    """The releases of a folder. Files that are added, changed or removed are noticed while it is served."""

    def __init__(self, folder: Path) -> None:
        self.folder = checked_folder(folder)
        self.unreadable: dict[str, str] = {}
        self._held: dict[str, Published] = {}
        self._looked = -_LOOK_AGAIN
        self._lock = threading.Lock()

    def all(self) -> list[Published]:
        """Every release, by name."""
        with self._lock:
            self._look()
            return [self._held[name] for name in sorted(self._held)]

    def find(self, name: str) -> Published | None:
        """The release under a name."""
        with self._lock:
            self._look()
            return self._held.get(name)

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_AGAIN:
            return
        found: dict[str, Published] = {}
        for path in _files(self.folder):
            if _head(path, 4) != _ZIP or not NAME.fullmatch(path.stem):
                continue
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            held = self._held.get(path.stem)
            if held is not None and (held.path, held.stamp) == (path, stamp):
                found[path.stem] = held
                continue
            try:
                found[path.stem] = Published(name=path.stem, path=path, release=load(path), stamp=stamp)
                self.unreadable.pop(path.name, None)
            except BadSynopsisFile as problem:
                self.unreadable[path.name] = str(problem)
        self._held, self._looked = found, time.monotonic()


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """A live session of a folder: its file, and what it is resumed with."""

    name: str
    path: Path
    data: str
    schema: Path
    ledger: str


def sessions_of(folder: Path) -> list[Hosted]:
    """The live sessions of a folder.

    Whatever a session's file names is opened with the rights of whoever serves it. The owner vouches for what lies in
    the folder; so a file that somebody else owns, or that others may write to, is refused, and so is such a folder.

    Raises:
        FolderError: A session is not the owner's own, or does not know where its table is.
    """
    folder = checked_folder(folder)
    found = []
    for path in _files(folder):
        head = _head(path, 72)
        if not head.startswith(_SQLITE) or head[68:72] != _SESSION or not NAME.fullmatch(path.stem):
            continue
        for place in (folder, path):
            stat = place.stat()
            if stat.st_uid != os.geteuid() or stat.st_mode & 0o022:
                raise FolderError(
                    f"{place} belongs to somebody else, or others may write to it: a session opens whatever its file "
                    "names, so make it yours alone (chown, chmod go-w)"
                )
        try:
            terms = terms_of(path)
        except SessionError as problem:
            raise FolderError(f"{path.name}: {problem}") from None
        data, schema = terms.source.get("data"), terms.source.get("schema")
        beside = path.with_name(path.name + SIDECAR)
        ledger = str(beside) if beside.is_file() else terms.ledger
        if data is None or schema is None or ledger is None:
            raise FolderError(
                f"{path.name} does not know where its table is: open it with `conspectus session DATA --schema S "
                f"--path {path.name}`, which writes that down"
            )
        found.append(Hosted(name=path.stem, path=path, data=data, schema=Path(schema), ledger=ledger))
    return found


def checked_folder(folder: Path) -> Path:
    """The folder, refused unless it is one."""
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder: name the one that holds the releases")
    return real_path(folder, FolderError)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _head(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""
