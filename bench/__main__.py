"""`python -m bench [name …]`: run all benchmarks, or those named, and write their tables into docs/benchmarks.md."""

from __future__ import annotations

import importlib
import sys

NAMES = (
    "counting",
    "nltcs",
    "adult",
    "ordinary",
    "coverage",
    "marginals",
    "boosting",
    "faithful",
    "functions",
    "numbers",
    "crossover",
    "planner",
    "dual_query",
    "wide",
    "dimension",
    "sparse",
    "small_db",
    "top",
    "single_values",
    "live",
    "live_wide",
    "rows_quality",
    "rows_tables",
    "sessions",
    "passing",
    "streaming",
    "far",
    "running",
    "stream_kills",
    "service",
)


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        if name not in NAMES:
            raise SystemExit(f"no benchmark is called {name}: there are {', '.join(NAMES)}")
        importlib.import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main()
