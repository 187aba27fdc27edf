"""The HTML page: one file that loads nothing."""

import re
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files

from histrs import __version__
from histrs._demo import _tables
from histrs._demo._charts import digit, digit_label, reliability
from histrs._demo._experiment import Candidate, Experiment, UncertainImage
from histrs._demo._models import GP, LINEAR
from histrs._demo._scores import Quality
from histrs._demo._tables import Table, percent


def page(experiment: Experiment) -> str:
    """Return the page as text."""
    sections = [
        _data(experiment),
        _scores(experiment),
        _learning(experiment),
        _calibration(experiment),
        _uncertain(experiment),
        _computation(experiment),
        _choice(experiment),
    ]
    style = files("histrs._demo").joinpath("style.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<title>histrs demo: digits</title>",
            f"<style>\n{style}</style>\n</head>\n<body>",
            _head(experiment),
            "<main>",
            *sections,
            "</main>",
            _foot(experiment),
            "</body>\n</html>\n",
        ]
    )


# ---- sections -----------------------------------------------------------------------------------


def _head(experiment: Experiment) -> str:
    gp = experiment.chosen(GP).quality
    linear = [c for c in experiment.contenders if c.model == LINEAR]

    def beside(text: Callable[[Quality], str]) -> str:
        return ", ".join(f"{text(c.quality)} ({c.features})" for c in linear)

    tiles: list[tuple[str, Callable[[Quality], str]]] = [
        ("Accuracy", lambda q: percent(q.accuracy)),
        ("Log loss", lambda q: f"{q.log_loss:.4f}"),
        ("Calibration error", lambda q: f"{q.calibration_error:.4f}"),
    ]
    cells = [
        f'<div class="tile"><dt>{name}</dt><dd><div class="value">{text(gp)}</div>'
        f'<div class="beside">{LINEAR}: {beside(text)}</div></dd></div>'
        for name, text in tiles
    ]
    cells.append(
        '<div class="tile"><dt>Largest score difference</dt>'
        f'<dd><div class="value">{experiment.agreement.score_difference:.1e}</div>'
        '<div class="beside">from a factorised kernel matrix</div></dd></div>'
    )
    return (
        "<header>\n<h1>An exact Gaussian process on histograms, and how sure it is</h1>\n"
        "<p>A Gaussian process with the histogram intersection kernel, <i>k</i>(<i>x</i>, <i>y</i>)"
        " = Σ min(<i>x</i><sub>d</sub>, <i>y</i><sub>d</sub>), and logistic regression, scored on "
        f"{experiment.n_test} images that neither has seen. Each model has the features and "
        "hyper-parameters that served it best on a part of the training images.</p>\n"
        f'<dl class="tiles">{"".join(cells)}</dl>\n</header>'
    )


def _data(experiment: Experiment) -> str:
    digits = "".join(
        digit(image, f"A handwritten {label}.") for label, image in enumerate(experiment.samples)
    )
    return _section("Data", f'<div class="strip">{digits}</div>', _p(_tables.data_text(experiment)))


def _scores(experiment: Experiment) -> str:
    return _section("Scores", _table(_tables.scores(experiment)))


def _learning(experiment: Experiment) -> str:
    return _section("Learned hyper-parameters", _table(_tables.learning(experiment)))


def _calibration(experiment: Experiment) -> str:
    figures = "".join(
        f"<figure><figcaption>{model}</figcaption>"
        f"{reliability(experiment.chosen(model).quality, model)}</figure>"
        for model in (GP, LINEAR)
    )
    return _section(
        "Calibration",
        _p(
            "Test images by the probability of the class that was predicted, in tenths. On the "
            "dashed line a model is right as often as it says. Bars: 95 % intervals (Wilson) for "
            "the share of correct classes; below, the number of images."
        ),
        f'<div class="pair">{figures}</div>',
        f"<details><summary>The numbers</summary>{_table(_tables.calibration(experiment))}"
        "</details>",
    )


def _uncertain(experiment: Experiment) -> str:
    table = _tables.uncertain(experiment)
    cards = "".join(_card(u) for u in experiment.uncertain)
    return _section(table.title, _p(table.note), f'<div class="cards">{cards}</div>')


def _card(u: UncertainImage) -> str:
    first = u.ranking[0]
    right = first == u.label
    verdict = f"{first}, right" if right else f"{first}, but it is {u.label}"
    rows = "".join(
        f'<li style="--share: {100 * u.probabilities[c]:.1f}%"><span>{c}</span>'
        f"<span>{percent(u.probabilities[c])}</span></li>"
        for c in u.ranking[:3]
    )
    return (
        f'<figure class="card">{digit(u.image, digit_label(u))}<figcaption>'
        f'<div class="verdict{"" if right else " miss"}">{verdict}</div><ol>{rows}</ol>'
        f'<div class="note"><span>image {u.row}</span><span>std {u.std:.3f}</span></div>'
        "</figcaption></figure>"
    )


def _computation(experiment: Experiment) -> str:
    return _section(
        "Exactness and cost",
        _p(
            "Conjugate gradients on sorted columns never form the kernel matrix. Their scores are "
            "compared with those of a Gaussian process written out in NumPy and SciPy, which "
            "stores the matrix and factorises it."
        ),
        _table(_tables.agreement(experiment)),
        _table(_tables.costs(experiment)),
    )


def _choice(experiment: Experiment) -> str:
    gp = experiment.chosen(GP)
    return _section(
        "Chosen hyper-parameters",
        _table(_tables.choice(experiment)),
        _grid(gp.candidates, gp.features),
    )


def _grid(candidates: list[Candidate], features: str) -> str:
    """Return the log loss of every candidate of the Gaussian process."""
    losses = {
        (c.parameters["noise"], c.parameters["amplitude"]): c.validation_log_loss
        for c in candidates
    }
    best, mark = min(losses.values()), ' class="best"'
    noises, amplitudes = (sorted(set(values)) for values in zip(*losses, strict=True))
    head = "".join(f'<th scope="col">amplitude {a:g}</th>' for a in amplitudes)
    body = ""
    for noise in noises:
        cells = "".join(
            f"<td{mark if losses[noise, a] == best else ''}>{losses[noise, a]:.4f}</td>"
            for a in amplitudes
        )
        body += f'<tr><th scope="row" class="word">noise {noise:g}</th>{cells}</tr>'
    return (
        f'<div class="scroll" tabindex="0"><table><caption>{GP}, {features}: log loss on the '
        f"validation images</caption><thead><tr><td></td>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _foot(experiment: Experiment) -> str:
    command = f"histrs demo --seed {experiment.seed}"
    return (
        f"<footer><p>Made by <code>{command}</code>, histrs {__version__}. "
        f"{escape(experiment.environment)}.</p>"
        "<p>E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, Large-scale Gaussian "
        "process inference with generalized histogram intersection kernels for visual recognition "
        "tasks, International Journal of Computer Vision, 2016. Digits: E. Alpaydin and C. "
        "Kaynak, Optical recognition of handwritten digits, UCI Machine Learning Repository, "
        "1998.</p></footer>"
    )


# ---- pieces -------------------------------------------------------------------------------------


def _section(title: str, *parts: str) -> str:
    return "\n".join(["<section>", f"<h2>{escape(title)}</h2>", *parts, "</section>"])


def _p(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_word(k, table)}>{_breakable(cell)}</th>' if cell else "<td></td>"
        for k, cell in enumerate(table.header)
    )
    body = "".join(f"<tr>{_row(row, table)}</tr>\n" for row in table.rows)
    return (
        f'<div class="scroll" tabindex="0"><table><caption>{escape(table.title)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"
        f'<p class="note">{escape(table.note)}</p>'
    )


def _row(row: Sequence[str], table: Table) -> str:
    first, *others = row
    cells = [f'<th scope="row" class="word">{_breakable(first)}</th>']
    cells += [f"<td{_word(k, table)}>{escape(c)}</td>" for k, c in enumerate(others, start=1)]
    return "".join(cells)


def _word(column: int, table: Table) -> str:
    return ' class="word"' if column < table.n_left else ""


def _breakable(text: str) -> str:
    """Let a narrow screen break compound names."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=_)", "<wbr>", escape(text))
