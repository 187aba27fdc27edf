"""The command `histrs`: which version this is, and what it runs on."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version

from histrs import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default the process's, and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="histrs",
        description="Gaussian processes for tables, with scikit-learn's API: predictions with "
        "intervals, no tuning, from 12 rows to millions.",
    )
    parser.add_argument("--version", action="version", version=f"histrs {__version__}")
    parser.add_argument(
        "--info",
        action="store_true",
        required=True,
        help="print the versions and the machine, for a bug report",
    )
    parser.parse_args(arguments)
    print(_info())
    return 0


def _info() -> str:
    # --version needs none of this.
    from histrs import _histrs

    facts = {
        "histrs": __version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "system": f"{platform.system()} {platform.machine()}",
        "instructions": _histrs.instruction_set(),
        "cores": str(os.cpu_count()),
    }
    return "\n".join(f"{name:<13}{value}" for name, value in facts.items())


if __name__ == "__main__":
    sys.exit(main())
