"""One connection to a service: requests, their answers, and refusals raised as the library would."""

from __future__ import annotations

import http.client
import io
import json
import threading
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pyarrow as pa

from conspectus.data.columns.column import CutsBin

from .refusing import KINDS, Refused


class ServiceError(ValueError):
    """The service cannot be reached, or refused for a reason that only a service has: no token, no such name, busy."""


class Link:
    """Requests to one address over one connection that is kept open."""

    def __init__(self, address: str, token: str | None, timeout: float) -> None:
        parts = urlsplit(address)
        self.address = address
        self._path = quote(parts.path, safe="/%")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        assert parts.hostname is not None
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._lock = threading.Lock()

    def get(self, path: str) -> Any:
        return json.loads(self.send("GET", path))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return json.loads(self.send("POST", path, body))

    def arrow(self, path: str, asked: dict[str, Any]) -> pa.Table:
        return read_arrow(self.send("GET", f"{path}?{urlencode({**asked, 'as': 'arrow'}, doseq=True)}"))

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        """The body of an answer; a refusal is raised as the library would."""
        content = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({} if body is None else {"Content-Type": "application/json"})
        with self._lock:
            for attempt in (1, 2):
                try:
                    self._connection.request(method, self._path + path, content, headers)
                    response = self._connection.getresponse()
                    said = response.read()
                    break
                except (OSError, http.client.HTTPException) as problem:
                    self._connection.close()
                    # A connection that was kept open may have been closed by the other side meanwhile. To ask again is
                    # safe: a question that was answered gets the same answer for nothing.
                    if attempt == 2 or isinstance(problem, TimeoutError):
                        raise ServiceError(f"{self.address} does not answer ({type(problem).__name__})") from None
        if response.status == 200:
            return said
        try:
            told = json.loads(said)
        except ValueError:
            told = None
        raise _raised(Refused.from_json(response.status, told))

    def close(self) -> None:
        self._connection.close()


def _raised(refused: Refused) -> Exception:
    kind = next((kind for kind, _, code, _ in KINDS if code == refused.error), None)
    if kind is None:
        return ServiceError(f"{refused.title}: {refused.text}")
    return CutsBin(refused.text, ()) if kind is CutsBin else kind(refused.text)


def read_arrow(content: bytes) -> pa.Table:
    """A table from the bytes of an Arrow stream."""
    with pa.ipc.open_stream(io.BytesIO(content)) as reader:
        return reader.read_all()
