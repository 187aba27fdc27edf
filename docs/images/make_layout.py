"""Make layout.svg, which part imports which: `.venv/bin/python -m docs.images.make_layout`."""

from pathlib import Path

from demo.draw import line, standalone, text
from tests.test_imports import PACKAGE, package_graph, reachable

BASE = "_checks, _solvers, _distributed, _*.py"
WIDTH, BOX, HEIGHT, STEP = 1100, 156, 30, 84
# Parts of one column would hide the lines between others of it.
SHIFTS = (0, -70, 70)


def parts() -> dict[str, set[str]]:
    """Return the parts of the package, with those that each imports; base modules are one."""
    found: dict[str, set[str]] = {BASE: set()}
    for module, imports in package_graph(PACKAGE, "histrs").items():
        if module not in {"histrs", "histrs.__main__"}:
            part = _part(module)
            others = {_part(name) for name in imports if name != "histrs"}
            found.setdefault(part, set()).update(others - {part})
    return found


def _part(module: str) -> str:
    name = module.split(".")[1]
    return BASE if name.startswith("_") else name


def drawing() -> str:
    """Return the picture: a part is above those that it imports."""
    graph = parts()
    levels: dict[str, int] = {}
    while len(levels) < len(graph):
        ready = [p for p in sorted(graph) if p not in levels and graph[p] <= set(levels)]
        levels |= {p: 1 + max((levels[q] for q in graph[p]), default=-1) for p in ready}
    rows = [[p for p in graph if levels[p] == k] for k in range(max(levels.values()) + 1)]
    at = {
        part: (
            90 + (WIDTH - 180) * (k + 0.5) / len(row) + SHIFTS[level % 3],
            40 + STEP * (len(rows) - 1 - level),
        )
        for level, row in enumerate(rows)
        for k, part in enumerate(sorted(row))
    }
    body = ""
    for part, imports in sorted(graph.items()):
        # What follows from other arrows is not drawn.
        implied = set().union(*(reachable(graph, other) for other in imports))
        for other in sorted(imports - implied):
            (x, y), (u, v) = at[part], at[other]
            body += line(x, y + HEIGHT / 2, u, v - HEIGHT / 2, "faint", 1.5)
    for part, (x, y) in sorted(at.items()):
        width = BOX if part != BASE else 2 * BOX
        body += (
            f'<rect class="paper" x="{x - width / 2:.1f}" y="{y - HEIGHT / 2:.1f}" '
            f'width="{width}" height="{HEIGHT}" rx="6" stroke="currentColor"/>'
        )
        body += text(x, y + 5, part, anchor="middle", size=13, colour="")
    label = "The parts of the package: a part imports those below it that a line leads to."
    return standalone(WIDTH, 80 + STEP * (len(rows) - 1), label, body)


if __name__ == "__main__":
    Path(__file__).with_name("layout.svg").write_text(drawing(), encoding="utf-8")
