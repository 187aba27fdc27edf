"""`python -m benches.papers [names ...]`; `--help` lists the options."""

import argparse
import fnmatch
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from benches._harness import ROOT
from benches.papers import _experiment, _page
from benches.papers._experiment import Experiment, Run

RESULTS = ROOT / "benches" / "results" / "papers"
PAGES = ROOT / "docs" / "results"


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments that are not finished; return 1 when one failed."""
    options = _parser().parse_args(arguments)
    quick = options.quick or os.environ.get("QUICK", "") not in ("", "0")
    experiments = _experiment.all_experiments()
    chosen = select(experiments, options.names)
    if not chosen:
        print(f"no experiment matches {' '.join(options.names)}; see --list", file=sys.stderr)
        return 2
    if options.list:
        for wanted in chosen:
            print(f"{wanted.name:24}{wanted.minutes:5.1f} min  {wanted.title}")
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        results, pages = _places(options.output, Path(temporary) if quick else None)
        failed = []
        if not options.render:
            try:
                failed = run_all(chosen, results, quick, options.again, _say)
            except KeyboardInterrupt:
                print("interrupted: the same command goes on after what is done", file=sys.stderr)
                return 130
        _page.write(experiments, results, pages)
        print(f"pages: {pages}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benches.papers", description="Repeat the experiments of the papers."
    )
    parser.add_argument(
        "names", nargs="*", help="experiments, papers or patterns such as 'cheb-*'; all if none"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny slices of bundled data, to see that everything runs (also QUICK=1); results go "
        "to a temporary folder unless --output is given",
    )
    parser.add_argument("--again", action="store_true", help="run also what is finished")
    parser.add_argument("--list", action="store_true", help="list the experiments")
    parser.add_argument("--render", action="store_true", help="make the pages, measure nothing")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where pages go, and results in its folder json (default: docs/results, and "
        "benches/results/papers)",
    )
    return parser


def _places(output: Path | None, temporary: Path | None) -> tuple[Path, Path]:
    """Return the folder of the results and that of the pages."""
    if output is not None or temporary is not None:
        folder = (output or temporary or Path()).resolve()
        return folder / "json", folder
    return RESULTS, PAGES


def select(experiments: dict[str, Experiment], patterns: list[str]) -> list[Experiment]:
    """Return the experiments whose name, or paper, matches a pattern; all when there is none."""
    return [
        wanted
        for wanted in experiments.values()
        if not patterns
        or any(fnmatch.fnmatch(x, p) for p in patterns for x in (wanted.name, wanted.paper))
    ]


def run_all(
    chosen: list[Experiment], results: Path, quick: bool, again: bool, say: Callable[[str], None]
) -> list[str]:
    """Run experiments one after the other, and keep each as soon as it is done."""
    failed = []
    for k, wanted in enumerate(chosen, start=1):
        before = _experiment.load(results, wanted.name)
        head = f"[{k}/{len(chosen)}] {wanted.name}: {wanted.title}"
        if _experiment.is_finished(before) and not again:
            say(f"{head}: finished before")
            continue
        lacking = "" if quick else _experiment.missing(wanted)
        if lacking:
            say(f"{head}: skipped: {lacking}")
            if not _experiment.is_finished(before):
                _experiment.keep({"name": wanted.name, "skipped": lacking}, results)
            continue
        say(head)
        try:
            result = _experiment.perform(wanted, Run(quick, say))
            _experiment.keep(result, results)
        except Exception:
            traceback.print_exc()
            failed.append(wanted.name)
            continue
        say(f"    {_page.sentence(wanted, result)} ({result['seconds']:.0f} s)")
    return failed


if __name__ == "__main__":
    sys.exit(main())
