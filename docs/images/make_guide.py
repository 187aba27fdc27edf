"""Draw pictures of the guide, by the programs of its pages: `python -m docs.images.make_guide`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from histrs.transport import sinkhorn
from tests.test_readme import fenced_blocks

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"
IMAGES = Path(__file__).resolve().parent
Names = dict[str, Any]


def covariance(found: Names) -> None:
    _, ax = plt.subplots(figsize=(3.2, 3.2), layout="constrained")
    angle = np.linspace(0, 2 * np.pi, 31)
    for matrix, label in zip(found["X"][:40], found["y"], strict=False):
        x, y = np.linalg.cholesky(matrix) @ [np.cos(angle), np.sin(angle)]
        ax.plot(x, y, color=f"C{label}", linewidth=0.5, alpha=0.6)
    ax.set(aspect="equal", xlabel="first feature", ylabel="second feature")


def detection(found: Names) -> None:
    _, axes = plt.subplots(1, 3, figsize=(6, 1.8), layout="constrained")
    for ax, image, boxes, parts in zip(
        axes, found["images_test"], found["found"], found["parts"], strict=False
    ):
        ax.imshow(image, cmap="Greys_r")
        for (left, top, right, bottom), colour in [
            (boxes[0], "C1"),
            *((p, "C0") for p in parts[0]),
        ]:
            corners = [left, right, right, left, left], [top, top, bottom, bottom, top]
            ax.plot(*corners, color=colour, linewidth=1.2)
        ax.set_axis_off()


def eeg(found: Names) -> None:
    _, ax = plt.subplots(figsize=(4.5, 2.6), layout="constrained")
    y, P = found["y"], found["P"]
    labels = [f"class {k}" for k in range(3)]
    ax.hist([P[y == k, k] for k in range(3)], np.linspace(0, 1, 11), stacked=True, label=labels)
    ax.set(xlabel="probability of the true class", ylabel="trials")
    ax.legend()


def kernels(found: Names) -> None:
    _, ax = plt.subplots(figsize=(5, 2.8), layout="constrained")
    x = np.linspace(-3, 3, 200)
    mean, std = found["model"].predict(np.column_stack([0 * x, x]), return_std=True)
    ax.fill_between(x, mean - 2 * std, mean + 2 * std, alpha=0.25)
    ax.plot(x, mean, label="prediction")
    ax.plot(x, np.sin(3 * x), "k:", label="true")
    ax.plot(found["X"][:, 1], found["y"] - 2 * found["X"][:, 0], ".", color="0.5", markersize=4)
    ax.set(xlabel="second column", ylabel="target less the line")
    ax.legend()


def neighbours(found: Names) -> None:
    _, axes = plt.subplots(4, 5, figsize=(3.6, 3), layout="constrained")
    nearest = found["model"].kneighbors(found["X_test"][:5], 3, return_distance=False)
    for column, query, rows in zip(axes.T, found["X_test"], nearest, strict=False):
        for ax, digit in zip(column, [query, *found["X_train"][rows]], strict=True):
            ax.imshow(digit.reshape(8, 8), cmap="Greys")
            ax.set_axis_off()


def molecules(found: Names) -> None:
    _, ax = plt.subplots(figsize=(3.6, 3.2), layout="constrained")
    y, mean, std = found["y"][400:], found["mean"], found["std"]
    ax.errorbar(y, mean, 1.96 * std, fmt=".", linewidth=0.6, markersize=4)
    ax.axline((y.mean(), y.mean()), slope=1, color="0.5", linewidth=0.8)
    ax.set(xlabel="property", ylabel="prediction")


def homes(found: Names) -> None:
    _, ax = plt.subplots(figsize=(5, 2.8), layout="constrained")
    size, kind = found["homes"]["size"][600:], found["homes"]["kind"][600:]
    for label, colour in (("flat", "C0"), ("house", "C1"), (None, "0.5")):
        of = kind.isna() if label is None else kind == label
        x, low, high, price = (
            np.asarray(v)[of] for v in (size, found["low"], found["high"], found["price"][600:])
        )
        ax.vlines(x, low, high, colour, linewidth=0.7, alpha=0.6)
        ax.plot(x, price, ".", color=colour, markersize=4, label=label or "missing")
    ax.set(xlabel="size", ylabel="price", yscale="log")
    ax.legend()


def transport(found: Names) -> None:
    _, (left, right) = plt.subplots(1, 2, figsize=(6, 2.6), layout="constrained")
    x = np.arange(40)
    a = np.exp(-0.5 * ((x - 10) / 3) ** 2)
    b = np.exp(-0.5 * ((x - 20) / 2) ** 2) + np.exp(-0.5 * ((x - 32) / 2) ** 2)
    a, b = a / a.sum(), b / b.sum()
    plan = sinkhorn(a, b, M=np.square(x[:, None] - x), reg=2.0)
    left.step(x, a, where="mid", label="a")
    left.step(x, b, where="mid", label="b")
    left.set(xlabel="bin", ylabel="mass")
    left.legend()
    right.imshow(plan, cmap="Greys", origin="lower")
    right.set(xlabel="bin of b", ylabel="bin of a")


def transport_large(found: Names) -> None:
    _, axes = plt.subplots(1, 4, figsize=(6, 1.7), layout="constrained")
    titles = ["first", "second", "third", "barycentre"]
    for ax, image, title in zip(axes, [*found["X"], found["b"]], titles, strict=True):
        ax.imshow(image.reshape(32, 32), cmap="Greys")
        ax.set_title(title, fontsize=9)
        ax.set_axis_off()


def names_of(page: Path, picture: str) -> Names:
    """Run the programs of a page above its picture."""
    found: Names = {}
    above, _, _ = page.read_text(encoding="utf-8").partition(f"(../images/{picture}.svg)")
    for block in fenced_blocks(above):
        if block.language == "python":
            exec(compile(block.code, str(page), "exec"), found)
    return found


DRAWN: dict[str, Callable[[Names], None]] = {
    "covariance": covariance,
    "detection": detection,
    "eeg": eeg,
    "kernels": kernels,
    "molecules": molecules,
    "neighbours": neighbours,
    "tables": homes,
    "transport": transport,
    "transport_large": transport_large,
}

for page, draw in DRAWN.items():
    draw(names_of(IMAGES.parent / "guide" / f"{page}.md", draw.__name__))
    plt.savefig(IMAGES / f"{draw.__name__}.svg", metadata={"Date": None})
    plt.close()
