"""Pictures: SVG written by hand, coloured by the classes that `style.css` defines."""

from collections.abc import Iterable
from html import escape

from histrs._demo._data import MOST_INK, Array
from histrs._demo._experiment import Experiment, UncertainImage
from histrs._demo._models import GP, LINEAR
from histrs._demo._scores import N_BINS, Quality

# Colours of a picture that stands alone; the page has its own.
_STANDALONE_STYLE = """
svg { color: #1c2126; font-family: system-ui, sans-serif; }
.paper { fill: #ffffff; }
.faint { stroke: #d5dade; } .muted { fill: #5a646e; } .line { stroke: #5a646e; }
.gp { fill: #0b6e8f; stroke: #0b6e8f; } .linear { fill: #b4540a; stroke: #b4540a; }
.wrong { fill: #b3261e; }
@media (prefers-color-scheme: dark) {
svg { color: #e4e8eb; }
.paper { fill: #14181b; }
.faint { stroke: #343b41; } .muted { fill: #a3adb6; } .line { stroke: #a3adb6; }
.gp { fill: #56bfe0; stroke: #56bfe0; } .linear { fill: #f0a05a; stroke: #f0a05a; }
.wrong { fill: #ff8a80; }
}
"""


def series_class(model: str) -> str:
    """Return the class that colours a model."""
    return {GP: "gp", LINEAR: "linear"}[model]


def svg(width: float, height: float, label: str, body: str) -> str:
    """Return a picture for the page; `label` says in words what it shows."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
        f"{body}</svg>"
    )


# ---- digits -------------------------------------------------------------------------------------


def digit(image: Array, label: str) -> str:
    """Return an image of blocks of ink."""
    return svg(8, 8, label, _blocks(image))


def digit_label(uncertain: UncertainImage) -> str:
    """Say in words what an image shows."""
    return f"Test image {uncertain.row}, a handwritten {uncertain.label}."


def _blocks(image: Array, size: float = 1.0) -> str:
    """Return 8 x 8 squares, the more opaque the more ink."""
    squares = (
        f'<rect x="{size * column:g}" y="{size * row:g}" width="{size:g}" height="{size:g}" '
        f'fill-opacity="{ink / MOST_INK:.3g}"/>'
        for row, line in enumerate(image.tolist())
        for column, ink in enumerate(line)
        if ink > 0
    )
    # Crisp edges: no hairlines between neighbouring squares.
    return f'<g fill="currentColor" shape-rendering="crispEdges">{"".join(squares)}</g>'


# ---- reliability --------------------------------------------------------------------------------

_SIDE = 220.0
_LEFT, _TOP = 54.0, 14.0
_GAP, _STRIP = 34.0, 56.0
RELIABILITY_SIZE = (_LEFT + _SIDE + 14, _TOP + _SIDE + _GAP + _STRIP + 44)


def reliability(quality: Quality, model: str) -> str:
    """Return a reliability diagram with the number of images of each bin below."""
    counts = ", ".join(
        f"{b.count} images from {b.lower:.1f} to {b.upper:.1f}: mean probability "
        f"{b.confidence:.3f}, {b.accuracy:.3f} right"
        for b in quality.bins
    )
    label = f"Reliability diagram of {model}. {counts}."
    return svg(*RELIABILITY_SIZE, label, reliability_body(quality, model))


def reliability_body(quality: Quality, model: str) -> str:
    """Return the drawing alone."""
    return "".join(
        [
            *_frame(),
            *_points(quality, series_class(model)),
            *_counts(quality, series_class(model)),
        ]
    )


def _x(share: float) -> float:
    return _LEFT + _SIDE * share


def _y(share: float) -> float:
    return _TOP + _SIDE * (1.0 - share)


def _frame() -> Iterable[str]:
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield _line(_x(tick), _y(0), _x(tick), _y(1), "faint")
        yield _line(_x(0), _y(tick), _x(1), _y(tick), "faint")
        yield _text(_x(0) - 6, _y(tick) + 4, f"{tick:g}", "end")
        yield _text(_x(tick), _y(0) + 16, f"{tick:g}", "middle")
    yield _line(_x(0), _y(0), _x(1), _y(1), "line", dashed=True)
    yield (
        f'<text class="muted" font-size="12" text-anchor="middle" '
        f'transform="translate(12 {_y(0.5):g}) rotate(-90)">share classified correctly</text>'
    )


def _points(quality: Quality, colour: str) -> Iterable[str]:
    for b in quality.bins:
        lower, upper = b.accuracy_interval()
        yield _line(_x(b.confidence), _y(lower), _x(b.confidence), _y(upper), colour, width=1.5)
    for b in quality.bins:
        yield (
            f'<circle class="{colour}" cx="{_x(b.confidence):.1f}" cy="{_y(b.accuracy):.1f}" '
            'r="4"/>'
        )


def _counts(quality: Quality, colour: str) -> Iterable[str]:
    base = _TOP + _SIDE + _GAP + _STRIP
    most = max(b.count for b in quality.bins)
    bar = _SIDE / N_BINS
    for b in quality.bins:
        # Room above for the number.
        height = max(1.0, (_STRIP - 14) * b.count / most)
        yield (
            f'<rect class="{colour}" x="{_x(b.lower) + 2:.1f}" '
            f'y="{base - height:.1f}" width="{bar - 4:.1f}" height="{height:.1f}"/>'
        )
        yield _text(_x(b.lower) + bar / 2, base - height - 4, str(b.count), "middle", 11)
    yield _line(_x(0), base, _x(1), base, "line")
    yield _text(_x(0.5), base + 18, "largest probability", "middle")
    yield _text(_x(0) - 6, base - _STRIP / 2 + 4, "images", "end", 11)


def _line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    colour: str,
    *,
    width: float = 1.0,
    dashed: bool = False,
) -> str:
    dash = ' stroke-dasharray="4 4"' if dashed else ""
    return (
        f'<line class="{colour}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke-width="{width:g}"{dash}/>'
    )


def _text(
    x: float, y: float, text: str, anchor: str = "start", size: float = 12, colour: str = "muted"
) -> str:
    paint = f'class="{colour}"' if colour else 'fill="currentColor"'
    return (
        f'<text {paint} x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


# ---- the picture of the README ------------------------------------------------------------------


def readme_picture(experiment: Experiment) -> str:
    """Return an SVG file: the reliability diagram and the most uncertain images."""
    gp = experiment.chosen(GP)
    width, height = 860, 410
    n_test = experiment.n_test
    cell_width, cell_height, left, top = 108.0, 162.0, 322.0, 62.0
    parts = [
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
        _text(24, 36, "How sure, and how often right", size=15, colour=""),
        f'<g transform="translate(14 44)">{reliability_body(gp.quality, GP)}</g>',
        _text(
            left,
            36,
            f"The {len(experiment.uncertain)} least certain of {n_test} test images",
            size=15,
            colour="",
        ),
    ]
    for k, u in enumerate(experiment.uncertain):
        x, y = left + cell_width * (k % 5), top + cell_height * (k // 5)
        parts.append(f'<g transform="translate({x:g} {y:g})">{_blocks(u.image, 9.0)}')
        for line, c in enumerate(u.ranking[:3]):
            note = " (true)" if c == u.label else ""
            colour = "wrong" if line == 0 and not note else "" if line == 0 else "muted"
            text = f"{c}: {100 * u.probabilities[c]:.0f} %{note}"
            parts.append(_text(0, 90 + 17 * line, text, size=13, colour=colour))
        parts.append("</g>")
    label = (
        f"Left: reliability diagram of an intersection Gaussian process on {n_test} test images of "
        f"digits. Right: its {len(experiment.uncertain)} least certain images with its three "
        "largest probabilities."
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(label)}">'
        f"<style>{_STANDALONE_STYLE}</style>{''.join(parts)}</svg>\n"
    )
