"""Pictures: SVG written by hand, coloured by the classes that `style.css` defines."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from demo.measure import ADDITIVE, BOOSTING, FOREST, LINEAR, TABULAR, Array, Curve, Image
from demo.measure import reliability_bins as bins_of

MOST_INK = 16.0
COLOURS = {TABULAR: "gp", ADDITIVE: "gp", BOOSTING: "peer", FOREST: "peer", LINEAR: "peer"}

# Colours of a picture that stands alone; the page has its own.
STANDALONE_STYLE = """
svg { color: #1c2126; font-family: system-ui, sans-serif; }
.paper { fill: #ffffff; }
.faint { stroke: #d5dade; } .muted { fill: #5a646e; } .line { stroke: #5a646e; }
.gp { fill: #0b6e8f; stroke: #0b6e8f; } .peer { fill: #b4540a; stroke: #b4540a; }
.wrong { fill: #b3261e; }
@media (prefers-color-scheme: dark) {
svg { color: #e4e8eb; }
.paper { fill: #14181b; }
.faint { stroke: #343b41; } .muted { fill: #a3adb6; } .line { stroke: #a3adb6; }
.gp { fill: #56bfe0; stroke: #56bfe0; } .peer { fill: #f0a05a; stroke: #f0a05a; }
.wrong { fill: #ff8a80; }
}
"""


def svg(width: float, height: float, label: str, body: str) -> str:
    """Return a picture for the page; `label` says in words what it shows."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
        f"{body}</svg>"
    )


def standalone(width: float, height: float, label: str, body: str) -> str:
    """Return a picture for a file of its own, light or dark as the reader prefers."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label="{escape(label)}">'
        f'<style>{STANDALONE_STYLE}</style><rect class="paper" width="{width:g}" '
        f'height="{height:g}" rx="8"/>{body}</svg>\n'
    )


def line(
    x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0, dash: str = ""
) -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line class="{colour}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke-width="{width:g}"{dashes}/>'
    )


def text(
    x: float, y: float, words: str, anchor: str = "start", size: float = 12, colour: str = "muted"
) -> str:
    paint = f'class="{colour}"' if colour else 'fill="currentColor"'
    return (
        f'<text {paint} stroke="none" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


# ---- digits -------------------------------------------------------------------------------------


def digit(image: Image) -> str:
    """Return an image of blocks of ink."""
    return svg(8, 8, f"Image {image.row}, a handwritten {image.label}.", blocks(image.pixels))


def blocks(pixels: Array, size: float = 1.0) -> str:
    """Return 8 x 8 squares, the more opaque the more ink."""
    squares = (
        f'<rect x="{size * column:g}" y="{size * row:g}" width="{size:g}" height="{size:g}" '
        f'fill-opacity="{ink / MOST_INK:.3g}"/>'
        for row, values in enumerate(pixels.tolist())
        for column, ink in enumerate(values)
        if ink > 0
    )
    # Crisp edges: no hairlines between neighbouring squares.
    return f'<g fill="currentColor" shape-rendering="crispEdges">{"".join(squares)}</g>'


# ---- reliability --------------------------------------------------------------------------------

_SIDE, _LEFT, _TOP = 220.0, 54.0, 14.0
RELIABILITY_SIZE = (_LEFT + _SIDE + 14, _TOP + _SIDE + 44)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95% interval for a fraction of n."""
    z = 1.96
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def reliability(model: str, bins: Sequence[tuple[int, float, float]]) -> str:
    """Return a reliability diagram: fraction of correct predictions against their probability."""
    words = "; ".join(f"{n} at probability {p:.2f}, {q:.2f} right" for n, p, q in bins)
    label = f"Reliability diagram of {model}. {words}."
    return svg(*RELIABILITY_SIZE, label, reliability_body(bins, COLOURS[model]))


def reliability_body(bins: Sequence[tuple[int, float, float]], colour: str) -> str:
    """Return the drawing alone."""
    return "".join([*_frame(), *_points(bins, colour)])


def _x(share: float) -> float:
    return _LEFT + _SIDE * share


def _y(share: float) -> float:
    return _TOP + _SIDE * (1.0 - share)


def _frame() -> Iterable[str]:
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield line(_x(tick), _y(0), _x(tick), _y(1), "faint")
        yield line(_x(0), _y(tick), _x(1), _y(tick), "faint")
        yield text(_x(0) - 6, _y(tick) + 4, f"{tick:g}", "end")
        yield text(_x(tick), _y(0) + 16, f"{tick:g}", "middle")
    yield line(_x(0), _y(0), _x(1), _y(1), "line", dash="4 4")
    yield text(_x(0.5), _y(0) + 34, "largest probability", "middle")
    yield (
        f'<text class="muted" stroke="none" font-size="12" text-anchor="middle" '
        f'transform="translate(12 {_y(0.5):g}) rotate(-90)">fraction predicted correctly</text>'
    )


def _points(bins: Sequence[tuple[int, float, float]], colour: str) -> Iterable[str]:
    for n, confidence, right in bins:
        lower, upper = wilson(right, n)
        yield line(_x(confidence), _y(lower), _x(confidence), _y(upper), colour, width=1.5)
        yield (f'<circle class="{colour}" cx="{_x(confidence):.1f}" cy="{_y(right):.1f}" r="4"/>')


# ---- what was learned ---------------------------------------------------------------------------


def bars(names: Sequence[str], heights: Sequence[float], label: str) -> str:
    """Return horizontal bars with their numbers."""
    largest = max(heights)
    body = []
    for k, (name, height) in enumerate(zip(names, heights, strict=True)):
        y = 22.0 * k
        width = 190 * height / largest
        body.append(text(74, y + 15, name, "end"))
        body.append(
            f'<rect class="gp" x="80" y="{y + 3:g}" width="{width:.1f}" height="15" rx="2"/>'
        )
        body.append(text(86 + width, y + 15, f"{height:.2f}"))
    return svg(320, 22.0 * len(names), label, "".join(body))


def curve(found: Curve) -> str:
    """Return a function of one column with its band of two standard deviations."""
    width, height, left, bottom, top = 280.0, 190.0, 44.0, 34.0, 10.0
    lower, upper = found.mean - 2 * found.std, found.mean + 2 * found.std
    low, high = float(lower.min()), float(upper.max())

    def place(x: Array, y: Array) -> list[str]:
        across = left + (width - left - 8) * (x - x[0]) / (x[-1] - x[0])
        up = height - bottom - (height - bottom - top) * (y - low) / (high - low)
        return [f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True)]

    band = place(found.x, upper) + place(found.x, lower)[::-1]
    ticks = np.array([low, high])
    heights = [float(p.split(",")[1]) for p in place(found.x[[0, -1]], ticks)]
    body = [
        f'<polygon class="band" points="{" ".join(band)}"/>',
        f'<polyline class="gp" style="fill:none" stroke-width="2" '
        f'points="{" ".join(place(found.x, found.mean))}"/>',
        line(left, height - bottom, width - 8, height - bottom, "line"),
        *(text(left - 6, y + 4, f"{v:+.0f}", "end") for v, y in zip(ticks, heights, strict=True)),
        text(left, height - bottom + 15, f"{found.x[0]:.3g}"),
        text(width - 8, height - bottom + 15, f"{found.x[-1]:.3g}", "end"),
        text((left + width) / 2, height - 5, found.name, "middle", colour=""),
    ]
    label = (
        f"What {found.name} adds to the prediction, from {found.mean[0]:.0f} at {found.x[0]:.3g} "
        f"to {found.mean[-1]:.0f} at {found.x[-1]:.3g}, with a band of two standard deviations."
    )
    return svg(width, height, label, "".join(body))


# ---- the picture of the README ------------------------------------------------------------------


def readme_picture(confidence: Array, right: Array, images: Sequence[Image]) -> str:
    """Return reliability and the least certain images as one picture of its own."""
    cell_width, cell_height, left, top = 108.0, 162.0, 322.0, 62.0
    parts = [
        text(24, 36, "How sure, and how often right", size=15, colour=""),
        f'<g transform="translate(14 60)">{reliability_body(bins_of(confidence, right), "gp")}</g>',
        text(left, 36, f"The {len(images)} least certain test images", size=15, colour=""),
    ]
    for k, image in enumerate(images):
        x, y = left + cell_width * (k % 5), top + cell_height * (k // 5)
        parts.append(f'<g transform="translate({x:g} {y:g})">{blocks(image.pixels, 9.0)}')
        for row, c in enumerate(image.ranking[:3]):
            note = " (true)" if c == image.label else ""
            colour = "wrong" if row == 0 and not note else "" if row == 0 else "muted"
            words = f"{c}: {100 * image.probabilities[c]:.0f}%{note}"
            parts.append(text(0, 90 + 17 * row, words, size=13, colour=colour))
        parts.append("</g>")
    label = (
        "Left: reliability diagram of a Gaussian process on test images of digits. Right: "
        f"its {len(images)} least certain images with the three largest probabilities."
    )
    return standalone(880, 352, label, "".join(parts))
