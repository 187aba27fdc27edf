"""The numbers as text, written once, so that terminal and page show the same."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from histrs._demo._experiment import Contender, Experiment
from histrs._demo._models import GP, LINEAR, Parameters


@dataclass(frozen=True)
class Table:
    """A table: its first `n_left` columns are words, the others numbers."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    n_left: int = 1


def percent(share: float) -> str:
    """Write a share."""
    return f"{100 * share:.1f} %"


def parameters_text(parameters: Parameters) -> str:
    """Write hyper-parameters."""
    return ", ".join(f"{name}={value:g}" for name, value in sorted(parameters.items()))


def features_text(contender: Contender) -> str:
    """Write the name of the features, and whether they were chosen."""
    return f"{contender.features}, chosen" if contender.is_chosen else contender.features


def data_text(experiment: Experiment) -> str:
    """Say what the data are."""
    total = experiment.n_fit + experiment.n_validation
    return (
        f"scikit-learn's digits, {total} training and {experiment.n_test} test images (seed "
        f"{experiment.seed}), described by histograms: the inked pixels in each of the 64 blocks "
        "of 4 x 4 pixels, which is the data set as it is (blocks), or in each of the 441 "
        "rectangles with sides of 1, 2, 4 or 8 blocks (windows). A linear model learns no new "
        "functions from the windows, which are sums of blocks; a sum of minima does."
    )


def scores(experiment: Experiment) -> Table:
    """Return how good each model is on the test images."""
    return Table(
        title=f"Scores on the {experiment.n_test} test images",
        header=["model", "features", "accuracy", "log loss", "calibration error"],
        rows=[
            [
                c.model,
                features_text(c),
                percent(c.quality.accuracy),
                f"{c.quality.log_loss:.4f}",
                f"{c.quality.calibration_error:.4f}",
            ]
            for c in experiment.contenders
        ],
        note=(
            "Chosen: the features that served the model best on the validation images. Between "
            f"the two chosen models: {experiment.n_only_gp_right} test images that only the "
            f"{GP} classifies correctly, {experiment.n_only_linear_right} that only "
            f"{LINEAR} does."
        ),
        n_left=2,
    )


def choice(experiment: Experiment) -> Table:
    """Return the hyper-parameters and what they were chosen by."""
    return Table(
        title=f"Chosen on the {experiment.n_validation} validation images",
        header=["model", "features", "hyper-parameters", "log loss there"],
        rows=[
            [
                c.model,
                features_text(c),
                parameters_text(c.best.parameters),
                f"{c.best.validation_log_loss:.4f}",
            ]
            for c in experiment.contenders
        ],
        note=(
            f"Every candidate of a grid was fitted to the other {experiment.n_fit} training images "
            "and compared by its log loss on these; the best was fitted again to all "
            f"{experiment.n_fit + experiment.n_validation}. The test images had no part in it."
        ),
        n_left=3,
    )


def learning(experiment: Experiment) -> Table:
    """Return what learned hyper-parameters gain."""
    total = experiment.n_fit + experiment.n_validation
    names = ("noise", "amplitude", "exponent")
    slowest = max(learned.fit_seconds for learned in experiment.learning)
    return Table(
        title=f"Hyper-parameters learned from the {total} training images alone",
        header=["features", "values", *names, "log lik.", "accuracy", "log loss"],
        rows=[
            [
                learned.features,
                learned.way,
                *(
                    f"{learned.parameters[name]:.2g}" if name in learned.parameters else ""
                    for name in names
                ),
                f"{learned.log_marginal_likelihood:.0f}",
                percent(learned.quality.accuracy),
                f"{learned.quality.log_loss:.4f}",
            ]
            for learned in experiment.learning
        ],
        note=(
            f"The {GP} with the values of the constructor (given), and with those of the largest "
            "marginal likelihood (learned), whose logarithm is log lik.; exponent: of a power of "
            "the counts. Accuracy and log loss are those of the test images. No validation image "
            f"was put aside, and no grid searched; the slowest fit took {_time(slowest)}."
        ),
        n_left=2,
    )


def calibration(experiment: Experiment) -> Table:
    """Return the numbers of the reliability diagrams."""
    models = [experiment.chosen(GP), experiment.chosen(LINEAR)]
    by_range = [{(b.lower, b.upper): b for b in c.quality.bins} for c in models]
    rows = []
    for lower, upper in sorted(set().union(*by_range)):
        row = [f"{lower:.1f} to {upper:.1f}"]
        for bins in by_range:
            b = bins.get((lower, upper))
            row += (
                [str(b.count), percent(b.confidence), percent(b.accuracy)] if b else ["0", "", ""]
            )
        rows.append(row)
    return Table(
        title="Calibration: how often the class that was given a probability was right",
        header=[
            "largest probability",
            *(f"{who} {what}" for who in ("GP", "LR") for what in ("images", "mean", "right")),
        ],
        rows=rows,
        note=(
            f"GP: {GP}; LR: {LINEAR}; both on the features chosen for them. Mean: of the largest "
            "probability. Right: the share classified correctly. The calibration error is the "
            "average, over all images, of the difference of the two."
        ),
    )


def uncertain(experiment: Experiment) -> Table:
    """Return the test images of most uncertain class."""
    return Table(
        title=f"The {len(experiment.uncertain)} most uncertain test images",
        header=["image", "is", "predicted", "probabilities", "std"],
        rows=[
            [
                str(u.row),
                str(u.label),
                str(u.ranking[0]),
                ", ".join(f"{k}: {percent(u.probabilities[k])}" for k in u.ranking[:3]),
                f"{u.std:.3f}",
            ]
            for u in experiment.uncertain
        ],
        note=(
            "By the entropy of the probabilities. Std: the predictive standard deviation of the "
            f"targets +1 and -1; its median over all test images is {experiment.median_std:.3f}."
        ),
        n_left=4,
    )


def agreement(experiment: Experiment) -> Table:
    """Return how exact the solver is."""
    a = experiment.agreement
    return Table(
        title="Conjugate gradients against the factorised matrix",
        header=["", "value"],
        rows=[
            ["largest difference of a score", f"{a.score_difference:.1e}"],
            ["largest difference that the residual permits", f"{a.score_bound:.1e}"],
            ["largest difference of a std", f"{a.std_difference:.1e}"],
            ["residual", f"{a.residual:.1e}"],
            ["tolerance", f"{a.tol:.0e}"],
            ["iterations", str(a.n_iter)],
        ],
        note=(
            "Scores of all test images and classes, targets being +1 and -1; std of the "
            f"{len(experiment.uncertain)} most uncertain images."
        ),
    )


def costs(experiment: Experiment) -> Table:
    """Return what each model costs."""
    return Table(
        title=f"Cost on one thread, medians of {experiment.n_runs} runs",
        header=[
            "model",
            "features",
            "fit",
            "predict",
            "predict_proba",
            "peak memory",
        ],
        rows=[
            [
                c.task.model,
                c.task.features,
                _time(c.fit_seconds),
                _time(c.predict_seconds),
                _time(c.probability_seconds),
                "unknown" if c.peak_bytes is None else f"{c.peak_bytes / 1e6:.1f} MB",
            ]
            for c in experiment.costs
        ],
        note=(
            "predict and predict_proba: a call for all test rows, divided by their number. The "
            "first three models are the same Gaussian process. For so few rows a stored kernel "
            "matrix is faster; the default, solver='auto', takes what it estimates to be faster, "
            "and solver='cg' is for more rows. Probabilities of a Gaussian process need its "
            "variance, with 'cg' a solve for each row, timed on "
            f"{len(experiment.uncertain)} rows. "
            "Peak memory: by how much the largest resident size of a process of its own grew while "
            "it fitted the model and classified the test rows, after libraries and data were "
            "loaded and a small fit was done."
        ),
        n_left=2,
    )


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


# ---- the terminal -------------------------------------------------------------------------------


def terminal_text(experiment: Experiment, width: int = 80) -> str:
    """Return every table in plain ASCII."""
    tables = (choice, scores, learning, calibration, uncertain, agreement, costs)
    parts = [
        textwrap.fill(data_text(experiment), width),
        *(_plain(table(experiment), width) for table in tables),
        textwrap.fill(experiment.environment, width),
    ]
    return "\n\n".join(parts)


def _plain(table: Table, width: int) -> str:
    lines = [table.header, *table.rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(table.header))]
    aligned = [
        "  ".join(
            cell.ljust(size) if k < table.n_left else cell.rjust(size)
            for k, (cell, size) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    rule = "-" * max(len(line) for line in aligned)
    note = textwrap.fill(table.note, width)
    return "\n".join([table.title, rule, aligned[0], rule, *aligned[1:], rule, note])
