"""`python -m benches [names ...] [--quick] [--list] [--output PAGE]`."""

import argparse
import fnmatch
import json
import shlex
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benches import _machine, _report
from benches._harness import ROOT, Row, all_rows, measure

PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benches" / "results"


def main(arguments: list[str] | None = None) -> int:
    """Measure the rows that were asked for; return 1 when one failed or computed another thing."""
    options = _parser().parse_args(arguments)
    rows = all_rows()
    chosen = select(rows, options.names)
    if not chosen:
        print(f"no row matches {' '.join(options.names)}; see --list", file=sys.stderr)
        return 2
    if options.list:
        for row in chosen:
            print(f"{row.name:28}{row.title}")
        return 0
    page, folder = _places(options)
    if options.render:
        _report.write(load(folder, rows), page)
        return 0
    environment = _machine.describe(options.quick)
    _say_environment(environment)
    failed = []
    results = []
    for row in chosen:
        start = time.perf_counter()
        print(f"{row.name}: {row.title}", flush=True)
        try:
            result = measure(row, options.quick, log=lambda line: print(line, flush=True))
        except Exception:
            traceback.print_exc()
            failed.append(row.name)
            continue
        flags = ["--quick"] if options.quick else []
        result["command"] = shlex.join(["python", "-m", "benches", row.name, *flags])
        result |= environment
        results.append(result)
        if folder is not None:
            save(result, folder)
        if not result["valid"]:
            failed.append(row.name)
        _say(result, time.perf_counter() - start)
    print("\n".join(_report.targets_table(results)))
    if page is not None and folder is not None:
        _report.write(load(folder, rows), page)
        print(f"written: {page}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benches", description="Measure histrs beside its peers."
    )
    parser.add_argument(
        "names", nargs="*", help="rows, modules or patterns such as 'fit-*'; all when there is none"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small data, to see that everything works; writes nothing without --output",
    )
    parser.add_argument("--list", action="store_true", help="list the rows, and measure nothing")
    parser.add_argument(
        "--render", action="store_true", help="make the page from the results, measure nothing"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="PAGE",
        help="the page to write (default: docs/benchmarks.md, with the results in "
        "benches/results; of another page, in a folder results beside it)",
    )
    return parser


def _places(options: argparse.Namespace) -> tuple[Any, Any]:
    """Return the page and the folder of results."""
    if options.output is not None:
        return options.output, options.output.resolve().parent / "results"
    return (None, None) if options.quick else (PAGE, RESULTS)


def select(rows: dict[str, Row], patterns: list[str]) -> list[Row]:
    """Return the rows whose name, or module, matches a pattern; all when there is none."""
    return [
        row
        for row in rows.values()
        if not patterns
        or any(fnmatch.fnmatch(x, pattern) for pattern in patterns for x in (row.name, row.module))
    ]


def save(result: dict[str, Any], folder: Path) -> None:
    """Keep a result as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1, allow_nan=False)
    (folder / f"{result['name']}.json").write_text(text + "\n", encoding="utf-8")


def load(folder: Path, rows: dict[str, Row]) -> list[dict[str, Any]]:
    """Return the results that were kept, in the order of the rows."""
    paths = [folder / f"{name}.json" for name in rows]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def _say_environment(environment: dict[str, Any]) -> None:
    for key in ("machine", "versions", "rates", "load"):
        print(f"{key}: {environment[key]}")
    if _machine.busy(environment["load"]):
        print("warning: the machine is busy; these times will not be right", file=sys.stderr)


def _say(result: dict[str, Any], elapsed: float) -> None:
    for side in result["sides"]:
        peak = f", {_report.size(side['peak_bytes'])}" if side["peak_bytes"] else ""
        low, high = _report.seconds(side["min"]), _report.seconds(side["max"])
        print(f"    {side['name']}: {_report.seconds(side['median'])} ({low} to {high}){peak}")
    for check in result["checks"]:
        if check["failed"]:
            print(f"    {check['text']}: too large: {check['failed']}, {check['errors']}")
    for target in result["targets"]:
        print(f"    {target['text']}: {target['reached']} {_report.verdict(target)}")
    print(f"    ({elapsed:.0f} s in all)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
