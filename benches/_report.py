"""`docs/benchmarks.md` and its picture, from the results kept as JSON."""

import json
import math
import re
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

Result = dict[str, Any]

HEAD = """# Benchmarks

This page is made by `make bench` from the results in `benches/results/`. Both sides of a comparison
run in one process and in turns, on the same data. Times are medians of at least five runs after a
warm-up. Each benchmark checks that both sides computed the same result, and prints the largest
error. If a target is not met, a note says where the time goes.
"""

# What profiles say of the rows whose targets are not met.
SHORTFALLS = Path(__file__).with_name("shortfalls.toml")


def write(results: list[Result], output: Path) -> None:
    """Write the page and, where matplotlib is installed, the picture of the growth."""
    output.parent.mkdir(parents=True, exist_ok=True)
    picture = output.parent / "images" / "growth.png"
    growth = next((r for r in results if r["name"] == "growth"), None)
    drawn = growth is not None and _draw_growth(growth, picture)
    output.write_text(render(results, "images/growth.png" if drawn else None), encoding="utf-8")


def render(results: list[Result], picture: str | None = None) -> str:
    """Return the page as Markdown."""
    environments, letters = _environments(results)
    lines = [HEAD]
    if any(result["quick"] for result in results):
        lines += [
            "**Some rows were measured with `--quick`, on small data: they only show that the "
            "program works.**",
            "",
        ]
    lines += ["## Targets", "", *targets_table(results), ""]
    for letter, result in environments.items():
        lines += [f"## Machine and versions{f' ({letter})' if letter else ''}", ""]
        lines += [*_environment(result), ""]
    for result in results:
        lines += _details(result, letters[result["name"]])
        if result["name"] == "growth" and picture:
            lines += [f"![Time, iterations and memory against the number of rows]({picture})", ""]
    return "\n".join(lines).rstrip() + "\n"


def targets_table(results: list[Result]) -> list[str]:
    """Return a line for every target."""
    lines = ["| work | target | to reach | reached | |", "|---|---|---|---|---|"]
    for result in results:
        link = f"[{result['title']}](#{anchor(result['title'])})"
        for target in result["targets"]:
            limit, unit = _limit(target), target["unit"]
            reached = target["reached"]
            value = "–" if reached is None else number(reached) + unit
            lines.append(
                f"| {link} | {target['text']} | {limit}{unit} | {value} | {verdict(target)} |"
            )
    return lines


def anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def verdict(target: dict[str, Any]) -> str:
    """Return what the table says of a target."""
    return {True: "met", False: "**not met**", None: "**not comparable**"}[target["met"]]


def shortfall(result: Result) -> str | None:
    """Return where the time goes, of a row with a target that is not met."""
    if all(target["met"] is not False for target in result["targets"]):
        return None
    return next((text for rows, text in shortfalls() if fnmatchcase(result["name"], rows)), None)


@cache
def shortfalls() -> list[tuple[str, str]]:
    """Return patterns of names of rows, and what is said of these."""
    found = tomllib.loads(SHORTFALLS.read_text(encoding="utf-8"))["shortfall"]
    return [(rows, entry["text"].strip()) for entry in found for rows in entry["rows"]]


def _limit(target: dict[str, Any]) -> str:
    if target["at_most"] is not None:
        return f"at most {number(target['at_most'])}"
    return f"at least {number(target['at_least'])}"


def number(value: Any) -> str:
    """Return three digits, without an exponent where that is readable."""
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value):
        return "–"
    if value == round(value) and abs(value) < 1e12:
        return f"{value:,.0f}"
    if not 1e-3 <= abs(value) < 1e7:
        return f"{value:.2e}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def seconds(value: float) -> str:
    """Return a time in its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return f"{number(value / 1e-9)} ns"


def size(value: float | None) -> str:
    """Return an amount of memory in its unit."""
    if value is None:
        return "–"
    return f"{number(value / 1e9)} GB" if value >= 1e9 else f"{number(value / 1e6)} MB"


def _environments(results: list[Result]) -> tuple[dict[str, Result], dict[str, str]]:
    """Return a result for each machine and set of versions, by letter, and every row's letter."""
    keys: dict[str, str] = {}
    found: dict[str, Result] = {}
    letters = {}
    distinct = {_key(result) for result in results}
    for result in results:
        key = _key(result)
        if key not in keys:
            keys[key] = "" if len(distinct) == 1 else chr(ord("A") + len(keys))
            found[keys[key]] = result
        letters[result["name"]] = keys[key]
    return found, letters


def _key(result: Result) -> str:
    return json.dumps([result["machine"], result["versions"]], sort_keys=True)


def _environment(result: Result) -> list[str]:
    machine, rates, load = result["machine"], result["rates"], result["load"]
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items() if k != "blas")
    others = load["cores_used_by_others"]
    return [
        f"* {machine['processor']}, {machine['cores']} cores used, {', '.join(machine['caches'])}, "
        f"{size(machine['memory_bytes'])} memory, {machine['system']}; "
        f"histrs runs its {machine['instruction_set']} path",
        "* measured: streaming "
        f"{rates['stream_1_thread_bytes_per_second'] / 1e9:.1f} GB/s in one thread, "
        f"{rates['stream_all_threads_bytes_per_second'] / 1e9:.1f} GB/s in all; "
        f"matrix products {rates['dgemm_flops'] / 1e9:.0f} GFLOP/s in float64, "
        f"{rates['sgemm_flops'] / 1e9:.0f} in float32",
        f"* {versions}",
        f"* {result['versions']['blas']}",
        f"* {result['date']}; load averages {load['averages']}, cores that others kept busy: "
        f"{'unknown' if others is None else number(round(others, 2))}",
    ]


def _details(result: Result, letter: str) -> list[str]:
    lines = [f"## {result['title']}", "", result["note"], ""]
    lines += [f"`{result['command']}`{f' on machine {letter}' if letter else ''}", ""]
    others = result["cores_used_by_others"]
    if others is not None and others > 0.1:
        lines += [f"**Other programs kept {others:.2f} cores busy meanwhile.**", ""]
    if not result["valid"]:
        lines += ["**A check failed: the times below compare different things.**", ""]
    lines += _sides(result)
    for check in result["checks"]:
        errors = [f"{name}: {number(error)}." for name, error in check["errors"].items()]
        failed = [f"**Too large: {', '.join(check['failed'])}.**"] if check["failed"] else []
        head = f"Checked: {check['text']} (limit {number(check['limit'])})."
        lines += [" ".join([head, *errors, *failed]), ""]
    if text := shortfall(result):
        lines += [f"**Not met.** {text}", ""]
    for figure in result["figures"]:
        unit = figure["unit"] if figure["unit"] in ("x", "%", "") else f" {figure['unit']}"
        lines.append(f"* {figure['text']}: {number(figure['value'])}{unit}")
    if result["figures"]:
        lines.append("")
    if result["table"]:
        header, rows = result["table"]["header"], result["table"]["rows"]
        lines += [_cells(header), "|" + "---|" * len(header)]
        lines += [_cells([number(value) for value in row]) for row in rows]
        lines.append("")
    return lines


def _sides(result: Result) -> list[str]:
    memory = any(side["peak_bytes"] for side in result["sides"])
    header = ["side", "median", "min", "max", "runs", *(["peak memory"] if memory else [])]
    lines = [_cells(header), "|" + "---|" * len(header)]
    for side in result["sides"]:
        times = [seconds(side[key]) for key in ("median", "min", "max")]
        name = f"{side['name']} (peer)" if side["peer"] else side["name"]
        peak = [size(side["peak_bytes"])] if memory else []
        lines.append(_cells([name, *times, str(len(side["seconds"])), *peak]))
    return [*lines, ""]


def _cells(values: Any) -> str:
    return "| " + " | ".join(values) + " |"


def _draw_growth(result: Result, path: Path) -> bool:
    """Draw the growth, or say that matplotlib is not there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return path.exists()
    rows, times, _, iterations, memory, _ = zip(*result["table"]["rows"], strict=True)
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    spread = [[s["median"] - s["min"] for s in result["sides"]]]
    spread.append([s["max"] - s["median"] for s in result["sides"]])
    left.errorbar(rows, times, yerr=spread, fmt="o-", capsize=3, label="fit")
    linear = [times[-1] * n / rows[-1] for n in rows]
    left.plot(rows, linear, "--", color="gray", label="proportional to the rows")
    left.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
    left.legend()
    middle.plot(rows, iterations, "o-")
    middle.set(xscale="log", xlabel="rows", ylabel="iterations", ylim=(0, 1.3 * max(iterations)))
    right.plot(*zip(*[(n, m) for n, m in zip(rows, memory, strict=True) if m], strict=True), "o-")
    right.set(xscale="log", yscale="log", xlabel="rows", ylabel="peak memory, MB")
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return True
