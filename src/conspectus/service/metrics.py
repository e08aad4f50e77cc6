"""How the service does, in the text format of Prometheus: requests, refusals, times. Nothing about any question."""

from __future__ import annotations

import bisect
import json
import os
import resource
import time
from collections import Counter
from pathlib import Path

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_EDGES = (*(f"{edge:g}" for edge in BUCKETS), "+Inf")
_NAMES = tuple(f'conspectus_request_seconds_bucket{{le="{edge}"}}' for edge in _EDGES)
_SAVE_EVERY = 1.0


class Metrics:
    """Counters of one worker. Several workers keep theirs in files of one folder, and whoever is asked adds them up."""

    def __init__(self, folder: Path | None = None, slot: int = 0) -> None:
        self._file = None if folder is None else folder / f"metrics-{slot}.json"
        self._counts: Counter[str] = Counter()
        self._saved = 0.0
        self.in_progress = 0
        if self._file is not None and self._file.is_file():
            self._counts.update(_read(self._file))  # a worker that takes the place of a dead one goes on from there

    def count(self, route: str, status: int, seconds: float) -> None:
        """One request that was answered."""
        self._counts[f'conspectus_requests_total{{route="{route}",status="{status}"}}'] += 1
        for name in _NAMES[bisect.bisect_left(BUCKETS, seconds) :]:
            self._counts[name] += 1
        self._counts["conspectus_request_seconds_sum"] += seconds  # type: ignore[assignment]
        self._counts["conspectus_request_seconds_count"] += 1
        if time.monotonic() - self._saved > _SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write the counters where the other workers find them."""
        self._saved = time.monotonic()
        if self._file is not None:
            part = self._file.with_suffix(".part")
            part.write_text(json.dumps(self._counts), encoding="utf-8")
            os.replace(part, self._file)

    def text(self) -> str:
        """All workers together, as Prometheus reads it."""
        self.save()
        total: Counter[str] = Counter()
        if self._file is None:
            total.update(self._counts)
        else:
            for path in self._file.parent.glob("metrics-*.json"):
                total.update(_read(path))
        lines = []
        for family, kind in (("conspectus_requests_total", "counter"), ("conspectus_request_seconds", "histogram")):
            lines.append(f"# TYPE {family} {kind}")
            found = [name for name in total if name.startswith(family)]
            lines += [f"{name} {total[name]:g}" for name in sorted(found, key=_order)]
        lines += ["# TYPE conspectus_requests_in_progress gauge", f"conspectus_requests_in_progress {self.in_progress}"]
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        lines += ["# TYPE conspectus_worker_peak_memory_bytes gauge", f"conspectus_worker_peak_memory_bytes {most}"]
        return "\n".join(lines) + "\n"


def _order(name: str) -> tuple[str, float]:
    """Buckets by their edges, all else by name."""
    head, _, edge = name.partition('{le="')
    return head, float(edge.removesuffix('"}').replace("+Inf", "inf")) if edge else 0.0


def _read(path: Path) -> dict[str, int]:
    try:
        return {str(name): value for name, value in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError):
        return {}
