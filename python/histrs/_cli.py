"""The command `histrs`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from histrs import __version__
from histrs._saving import save

_LARGEST_SEED = 2**32 - 1
# What a page of the demo has in its first bytes.
_TITLE, _BEGINNING = b"<title>histrs demo: digits</title>", 512


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default the process's, and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    problem = _unwritable(options.output)
    if problem:
        parser.exit(2, f"histrs demo: error: {problem}\n")
    try:
        return _run_demo(options.output, options.seed, options.quiet)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"histrs demo: error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="histrs",
        description="Non-linear learning on histograms at the cost of linear learning.",
    )
    parser.add_argument("--version", action="version", version=f"histrs {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="train and score a Gaussian process on real histograms; write a page of results",
        description=(
            "Trains a Gaussian process with the histogram intersection kernel on scikit-learn's "
            "digits, scores it beside logistic regression and a factorised kernel matrix, prints "
            "tables and writes an HTML page."
        ),
    )
    demo.add_argument(
        "--output",
        type=Path,
        default=Path("histrs-demo.html"),
        metavar="PATH",
        help="the page to write (default: %(default)s)",
    )
    demo.add_argument(
        "--seed",
        type=_seed,
        default=0,
        help="chooses the training and test images (default: %(default)s)",
    )
    demo.add_argument("--quiet", action="store_true", help="print nothing, only write the page")
    return parser


def _seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        seed = -1
    if not 0 <= seed <= _LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to {_LARGEST_SEED}")
    return seed


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
    """Refuse to replace what is no page of the demo."""
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file.")
    with path.open("rb") as file:
        start = file.read(_BEGINNING)
    if start and _TITLE not in start:
        raise ValueError(f"{path} is another file than a page of the demo; name a new one.")


def _run_demo(output: Path, seed: int, quiet: bool) -> int:
    # The other options need none of this.
    from histrs import _demo

    def report(stage: str) -> None:
        if not quiet:
            print(f"{stage} ...", file=sys.stderr)

    experiment = _demo.run_experiment(seed, report)
    save(output, [_demo.page(experiment).encode()], _check_page)
    if not quiet:
        print(_demo.terminal_text(experiment))
        print(f"\nPage: {output.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
