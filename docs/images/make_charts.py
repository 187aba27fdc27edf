"""Make charts.svg from benches/results: `.venv/bin/python -m docs.images.make_charts`."""

import json
from pathlib import Path
from typing import Any

from benches.quality.store import RESULTS as QUALITY
from benches.quality.store import Store
from benches.quality.summary import OURS, compared
from benches.quality.tables import listed
from demo.draw import standalone, text

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "benches" / "results"
WIDTH, COLUMN, NAME, BAR = 900, 450, 205, 170
TOPS, HEIGHT = [30, 260, 370], 488
Rows = list[tuple[str, float, bool]]


def result(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def mean_ranks(score: str) -> Rows:
    """Return mean ranks at 3,000 rows, over the tables that nothing was chosen on."""
    found = Store(QUALITY).frame()
    tables = [table for table in listed() if table.use == "held"]
    ranks = compared(found[found["gaps"] == ""], tables, "3000", score).ranks.mean()
    return [(str(n), float(rank), n in OURS) for n, rank in ranks.sort_values().items()]


def seconds(name: str, sides: dict[str, str]) -> Rows:
    """Return medians of some sides of a benchmark, in milliseconds, under shorter names."""
    found = {side["name"]: side for side in result(name)["sides"]}
    rows = [(short, 1e3 * found[s]["median"], not found[s]["peer"]) for s, short in sides.items()]
    return sorted(rows, key=lambda row: row[1])


def written(value: float, unit: str) -> str:
    if unit == "ms" and value >= 1000:
        return f"{value / 1000:.2g} s"
    return f"{value:.3g} {unit}".strip()


def panel(x: float, y: float, title: str, command: str, rows: Rows, unit: str) -> str:
    largest = max(value for _, value, _ in rows)
    body = [text(x, y, title, size=14, colour=""), text(x, y + 18, command, size=11)]
    for k, (name, value, ours) in enumerate(rows):
        top = y + 32 + 24 * k
        colour = "gp" if ours else "peer"
        width = max(2.0, BAR * value / largest)
        body.append(text(x + NAME - 8, top + 13, name, "end", colour="" if ours else "muted"))
        body.append(
            f'<rect class="{colour}" x="{x + NAME}" y="{top}" width="{width:.1f}" height="17" '
            'rx="2"/>'
        )
        body.append(text(x + NAME + width + 6, top + 13, written(value, unit)))
    return "".join(body)


PANELS = [
    ("Tables: mean rank of seven by log loss", "benches.quality", mean_ranks("log loss"), ""),
    ("Tables: mean rank of seven by RMSE", "benches.quality", mean_ranks("RMSE"), ""),
    (
        "Chi-square features, 4,000 x 784",
        "benches chi2-map-f64",
        seconds(
            "chi2-map-f64",
            {
                "AdditiveChi2Map(9)": "AdditiveChi2Map",
                "AdditiveChi2Sampler(5)": "scikit-learn, same length",
            },
        ),
        "ms",
    ),
    (
        "Sinkhorn, all pairs of 80, 60 bins",
        "benches sinkhorn-60-1e-6",
        seconds(
            "sinkhorn-60-1e-6",
            {"sinkhorn_distances": "sinkhorn_distances", "POT, one to many, each pair once": "POT"},
        ),
        "ms",
    ),
    (
        "Riemannian distances, 100 x 100 pairs",
        "benches airm-23",
        seconds(
            "airm-23",
            {
                "airm_distances": "airm_distances",
                "NumPy eigvalsh": "NumPy",
                "pyRiemann": "pyRiemann",
            },
        ),
        "ms",
    ),
    (
        "Principal components, 60,000 x 1,000",
        "benches streaming-pca",
        seconds(
            "streaming-pca",
            {
                "StreamingPCA, chunks of 4096 rows": "StreamingPCA, in chunks",
                'PCA(svd_solver="covariance_eigh"), in memory': "scikit-learn, in memory",
            },
        ),
        "ms",
    ),
]


def picture() -> str:
    parts = [
        panel(18 + COLUMN * (k % 2), TOPS[k // 2], title, f"python -m {command}", *rest)
        for k, (title, command, *rest) in enumerate(PANELS)
    ]
    words = "; ".join(
        f"{title}: " + ", ".join(f"{name} {written(value, unit)}" for name, value, _ in rows)
        for title, _, rows, unit in PANELS
    )
    return standalone(WIDTH, HEIGHT, f"Six charts. {words}.", "".join(parts))


(HERE / "charts.svg").write_text(picture(), encoding="utf-8")
