"""The command: ``python -m demo --output PATH --seed N --quiet``."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from demo import figures, measure
from demo.page import TITLE, page, terminal
from histrs._archive import save

_LARGEST_SEED = 2**32 - 1 - measure.N_SPLITS
_BEGINNING = 512


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration with these arguments, by default the process's; return an exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    problem = _unwritable(options.output)
    if problem:
        parser.error(problem)

    def report(stage: str) -> None:
        if not options.quiet:
            print(f"{stage} ...", file=sys.stderr)

    try:
        results = measure.run(options.seed, report)
        save(options.output, [page(results).encode()], _check_page)
        if options.write_figures:
            figures.write(results)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"demo: error: {error}", file=sys.stderr)
        return 1
    if not options.quiet:
        print(terminal(results))
        print(f"\nPage: {options.output.resolve()}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description="Gaussian processes of histrs beside boosted trees, a random forest and linear "
        "models, on the tables and images that scikit-learn bundles. Prints tables and writes an "
        "HTML page.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("histrs-demo.html"),
        metavar="PATH",
        help="the page to write (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, help="chooses the splits (default: %(default)s)"
    )
    parser.add_argument(
        "--write-figures",
        action="store_true",
        help="also write the figures into docs/elsewhere.md of this checkout",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing, only write the page")
    return parser


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) > _LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to {_LARGEST_SEED}")
    return int(text)


def _unwritable(output: Path) -> str | None:
    """Say why the page cannot be written, before the work rather than after it."""
    if output.is_dir():
        return f"--output {output} is a directory; name a file."
    if not output.parent.is_dir():
        return f"--output {output}: there is no directory {output.parent}; make it first."
    if not os.access(output if output.exists() else output.parent, os.W_OK):
        return f"--output {output} is not writable."
    try:
        if output.exists():
            _check_page(output)
    except ValueError as error:
        return f"--output {error}"
    return None


def _check_page(path: Path) -> None:
    """Refuse to replace what is no page of the demonstration."""
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file.")
    with path.open("rb") as file:
        start = file.read(_BEGINNING)
    if start and TITLE.encode() not in start:
        raise ValueError(f"{path} is another file than a page of the demo; name a new one.")


if __name__ == "__main__":
    sys.exit(main())
