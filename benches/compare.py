"""`python -m benches.compare REFERENCE NEW [--slower 1.5]`: has a row become slower?

Both are folders of results as `python -m benches --output` writes them. What is compared is the
time of each of our sides over that of the fastest peer of the same run, which depends little on the
machine. Returns 1 where that has grown by more than the factor, where a row failed, or where a side
of ours cannot be compared any more. Rows that only one folder has are named.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

# Two machines differ by this much where nothing has changed.
SLOWER = 1.5


def relative_times(result: dict[str, Any]) -> dict[str, float]:
    """Return the time of each of our sides over that of the fastest accurate peer."""
    sides = [side for side in result["sides"] if side["accurate"]]
    peers = [side["median"] for side in sides if side["peer"]]
    if not peers:
        return {}
    return {side["name"]: side["median"] / min(peers) for side in sides if not side["peer"]}


def compare(
    reference: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]], slower: float = SLOWER
) -> tuple[list[str], list[str]]:
    """Return a line for each comparison, and the lines that are an alert."""
    lines, alerts = [], []
    for name in sorted(reference.keys() | new.keys()):
        if name not in new or name not in reference:
            lines.append(f"{name}: only in {'the reference' if name in reference else 'the new'}")
            continue
        if not new[name]["valid"]:
            alerts.append(f"{name}: the answers are no longer within their limits")
        before, after = relative_times(reference[name]), relative_times(new[name])
        alerts += [
            f"{name}, {side}: nothing to compare is left"
            for side in sorted(before.keys() - after.keys())
        ]
        for side in sorted(before.keys() & after.keys()):
            factor = after[side] / before[side]
            line = (
                f"{name}, {side}: {after[side]:.3g} of the fastest peer's time, {factor:.2f} times "
                f"the {before[side]:.3g} of the reference"
            )
            (alerts if factor > slower else lines).append(line)
    return lines, alerts


def load(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the results of the rows in a folder, by name."""
    results = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    return {r["name"]: r for r in results if isinstance(r, dict) and "sides" in r}


def main(arguments: list[str] | None = None) -> int:
    """Print the comparison; return 1 for an alert."""
    parser = argparse.ArgumentParser(prog="python -m benches.compare", description=__doc__)
    parser.add_argument("reference", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--slower", type=float, default=SLOWER, metavar="FACTOR")
    parser.add_argument("--rows", nargs="+", help="rows that both must have; the others are left")
    options = parser.parse_args(arguments)
    reference, new = load(options.reference), load(options.new)
    for name in options.rows or []:
        if name not in reference or name not in new:
            print(f"{name}: there is no result", file=sys.stderr)
            return 1
    if options.rows:
        reference = {name: reference[name] for name in options.rows}
        new = {name: new[name] for name in options.rows}
    if not reference.keys() & new.keys():
        print("the folders have no row in common", file=sys.stderr)
        return 1
    lines, alerts = compare(reference, new, options.slower)
    print("\n".join(lines))
    for alert in alerts:
        print(f"SLOWER: {alert}")
    return bool(alerts)


if __name__ == "__main__":
    sys.exit(main())
