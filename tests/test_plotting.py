"""What the pictures show is what the models hold."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    TabularGPRegressor,
)
from histrs.gaussian_process.kernels import Interactions, Intersection
from histrs.kernel_approximation import AdditiveChi2Map
from histrs.plotting import (
    plot_calibration,
    plot_compression,
    plot_explanation,
    plot_kernel_error,
    plot_pair_functions,
    plot_prototypes,
    plot_relevance,
    plot_shape_functions,
)
from histrs.prototypes import CompressionCurve, RandomSubset

plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")
plt.switch_backend("Agg")


@pytest.fixture(autouse=True)
def no_open_figures():
    yield
    plt.close("all")


@pytest.fixture
def model(rng):
    X = rng.random((80, 8))
    y = np.sin(5 * X[:, 2]) + X[:, 5]
    weights = np.arange(1.0, 9.0)
    return IntersectionGPRegressor(
        Intersection(feature_weights=weights), optimizer=None, noise=0.01, random_state=0
    ).fit(X, y)


def labels(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def test_bars_are_shares_of_the_weights(model):
    ax = plot_relevance(model, max_features=3)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, np.array([8, 7, 6, 15]) / 36)
    assert labels(ax) == ["feature 7", "feature 6", "feature 5", "5 others"]
    figure, given = plt.subplots()
    assert plot_relevance(model, ax=given, feature_names=list("abcdefgh")) is given
    assert labels(given) == list("hgfedcba")
    assert len(figure.axes) == 1


def test_names_of_a_data_frame(rng):
    X = pd.DataFrame(rng.random((30, 2)), columns=["red", "green"])
    model = IntersectionGPClassifier(random_state=0).fit(X, np.arange(30) % 2)
    assert set(labels(plot_relevance(model))) == {"red", "green"}
    titles = [ax.get_title() for ax in plot_shape_functions(model, [1, 0])]
    assert titles == ["green", "red"]
    titles = [ax.get_title() for ax in plot_shape_functions(model, ["green", 0])]
    assert titles == ["green", "red"]
    with pytest.raises(ValueError, match=r"no feature 'blue'; the features are \['red', 'green'\]"):
        plot_shape_functions(model, ["blue"])


def test_names_and_axes_that_are_given(model):
    (ax,) = plot_shape_functions(model, ["c"], feature_names=list("abcdefgh"))
    assert ax.get_title() == "c"
    with pytest.raises(ValueError, match="fitted on columns without names: give feature_names"):
        plot_shape_functions(model, ["c"])
    with pytest.raises(ValueError, match="1 axes for 2 features"):
        plot_shape_functions(model, [0, 1], axes=ax)


@pytest.mark.parametrize("bands", [True, False])
def test_lines_are_the_shape_functions(model, bands):
    axes = plot_shape_functions(model, [2, 0], bands=bands)
    assert len(axes) == 2
    for ax, function in zip(axes, model.shape_functions([2, 0]), strict=True):
        (line,) = ax.lines
        np.testing.assert_array_equal(line.get_xdata(), function.knots)
        np.testing.assert_array_equal(line.get_ydata(), function.values)
        assert len(ax.collections) == int(bands)
    if bands:
        (band,) = model.shape_functions([2], max_knots=65, return_std=True)
        low, high = axes[0].collections[0].get_datalim(axes[0].transData).intervaly
        assert low == pytest.approx(np.min(band.values - 2 * band.std))
        assert high == pytest.approx(np.max(band.values + 2 * band.std))


def test_the_six_that_vary_most_are_drawn(model):
    titles = {ax.get_title() for ax in plot_shape_functions(model, bands=False)}
    assert len(titles) == 6
    assert {"feature 2", "feature 5"} <= titles


def test_one_output_of_several(rng):
    X, y = rng.random((60, 3)), np.arange(60) % 3
    model = IntersectionGPClassifier(random_state=0).fit(X, y)
    (ax,) = plot_shape_functions(model, [1], output=2)
    (function,) = model.shape_functions([1])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), function.values[:, 2])
    with pytest.raises(ValueError, match=r"output = 3: give a number from 0 to 2"):
        plot_shape_functions(model, output=3)


def test_kernel_error_draws_the_bounds():
    domain = (1e-3, 2.0)
    ax = plot_kernel_error(domain, n_components=[1, 2, 3, 5])
    lines = {line.get_label(): line.get_xydata() for line in ax.lines}
    assert list(lines) == ["rational", "chebyshev", "periodic", "power"]
    for method, points in lines.items():
        counts = [1, 3, 5] if method == "periodic" else [1, 2, 3, 5]
        np.testing.assert_array_equal(points[:, 0], counts)
        for m, error in points:
            model = AdditiveChi2Map(int(m), method=method, domain=domain).fit([[1.0]])
            assert error == model.kernel_error_bound_
    _, ax = plt.subplots()
    assert plot_kernel_error(n_components=[3], methods=["power"], ax=ax) is ax
    assert len(ax.lines) == 1


def test_without_matplotlib_the_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for plot in (plot_kernel_error, lambda: plot_relevance(model)):
        with pytest.raises(ImportError, match=r'pip install "histrs\[plot\]"'):
            plot()


def test_errors_against_compression():
    curves = {
        "one run": CompressionCurve(np.array([0.02, 0.16]), np.array([[0.3], [0.2]])),
        "two": CompressionCurve(np.array([0.02, 0.16]), np.array([[0.3, 0.1], [0.2, 0.0]])),
    }
    ax = plot_compression(curves, full_error=0.15)
    lines = {line.get_label(): line for line in ax.lines if line.get_label()[0] != "_"}
    np.testing.assert_allclose(lines["all samples"].get_ydata(), 15)
    drawn = [container.lines[0] for container in ax.containers]
    np.testing.assert_allclose(drawn[0].get_ydata(), [30, 20])
    np.testing.assert_allclose(drawn[1].get_ydata(), [20, 10])
    np.testing.assert_allclose(drawn[1].get_xdata(), [2, 16])
    assert not ax.containers[0].has_yerr
    assert ax.containers[1].has_yerr
    _, given = plt.subplots()
    assert plot_compression(curves, ax=given) is given


def test_prototypes_as_ellipses_bars_and_pictures(rng):
    X = np.stack([np.diag([1.0, 4.0, 9.0]), np.diag([4.0, 1.0, 1.0]), np.diag([9.0, 1.0, 1.0])])
    model = RandomSubset(1.0).fit(X, ["a", "b", "b"])
    panels = plot_prototypes(model, features=(0, 2)).axes
    assert [len(ax.lines) for ax in panels] == [1, 2]
    x, y = panels[0].lines[0].get_data()
    np.testing.assert_allclose(x**2 + y**2 / 9, 1.0)
    with pytest.raises(ValueError, match="give numbers from 0 to 2"):
        plot_prototypes(model, features=(0, 3))
    H = rng.random((4, 6))
    model = RandomSubset(1.0, metric="chi2", random_state=0).fit(H, [0, 0, 1, 1])
    panels = plot_prototypes(model, max_prototypes=3).axes
    heights = [[bar.get_height() for bar in ax.patches] for ax in panels]
    np.testing.assert_allclose(heights, model.prototypes_[:3])
    figure = plt.figure()
    assert plot_prototypes(model, shape=(2, 3), figure=figure) is figure
    np.testing.assert_allclose(
        figure.axes[1].images[0].get_array(), model.prototypes_[1].reshape(2, 3)
    )
    with pytest.raises(ValueError, match=r"shape = \(2, 2\) has 4 cells: give 6"):
        plot_prototypes(model, shape=(2, 2))


class Sure(ClassifierMixin, BaseEstimator):
    """Says what it is told to."""

    def __init__(self, probabilities, classes):
        self.probabilities, self.classes_ = np.asarray(probabilities), np.asarray(classes)

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return self.probabilities


def test_calibration_of_two_classes_counts_the_second():
    sure = np.array([0.1, 0.1, 0.1, 0.1, 0.9, 0.9])
    model = Sure(np.column_stack([1.0 - sure, sure]), ["no", "yes"])
    y = ["no", "no", "no", "yes", "yes", "yes"]
    ax = plot_calibration(model, np.zeros((6, 1)), y, n_bins=2)
    line = ax.containers[0].lines[0]
    np.testing.assert_allclose(line.get_xdata(), [0.1, 0.9])
    np.testing.assert_allclose(line.get_ydata(), [0.25, 1.0])
    # 4 rows are off by 0.15, and 2 by 0.1.
    assert ax.get_legend().get_texts()[0].get_text().endswith("0.133")


def test_calibration_of_three_classes_is_of_the_predicted_one():
    model = Sure([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8]], [3, 5, 7])
    ax = plot_calibration(model, np.zeros((3, 1)), [3, 5, 7], n_bins=1)
    line = ax.containers[0].lines[0]
    np.testing.assert_allclose(line.get_xdata(), [2.0 / 3.0])
    np.testing.assert_allclose(line.get_ydata(), [2.0 / 3.0])


def test_calibration_of_intervals(rng):
    X = rng.random((300, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=300)
    model = IntersectionGPRegressor(random_state=0).fit(X[:200], y[:200])
    ax = plot_calibration(model, X[200:], y[200:])
    mean, std = model.predict(X[200:], return_std=True)
    levels, within = ax.lines[1].get_data()
    assert levels[-1] == pytest.approx(0.95)
    assert within[-1] == pytest.approx(np.mean(np.abs(y[200:] - mean) <= 1.959964 * std))
    assert within[9] == pytest.approx(np.mean(np.abs(y[200:] - mean) <= 0.674490 * std))


@pytest.mark.parametrize(
    ("y", "options", "said"),
    [
        ([0, 1], {}, "inconsistent"),
        ([[0], [1], [0]], {}, "one label or target"),
        ([0, 1, 0], {"n_bins": 0}, "at least one bin"),
    ],
)
def test_calibration_of_what_cannot_be_drawn(y, options, said):
    model = Sure(np.full((3, 2), 0.5), [0, 1])
    with pytest.raises(ValueError, match=said):
        plot_calibration(model, np.zeros((3, 1)), y, **options)


def test_explanation_of_one_row(rng):
    X = pd.DataFrame(rng.random((80, 4)), columns=["a", "b", "c", "d"])
    y = 3.0 * X["b"] - X["c"]
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    explanation = model.explain(X[:2])
    ax = plot_explanation(explanation, 1, max_features=2)
    order = np.argsort(-np.abs(explanation.values[1]))
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths[:2], explanation.values[1][order[:2]])
    assert widths[2] == pytest.approx(explanation.values[1][order[2:]].sum())
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[2] == "2 others"
    assert names[0] == f"{'abcd'[order[0]]} = {X.iloc[1, order[0]]:.4g}"
    assert ax.get_xlabel().endswith(f"{model.predict(X[1:2])[0]:.4g}")


def test_explanation_of_a_blend_has_a_bar_for_its_remainder(rng):
    X = pd.DataFrame({"a": rng.random(120), "b": rng.choice(["u", "v"], 120)})
    y = 3.0 * X["a"] + (X["b"] == "v")
    model = TabularGPRegressor(random_state=0, target_transform="identity").fit(X, y)
    explanation = model.explain(X[:2])
    ax = plot_explanation(explanation, 1)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert f"b = {X['b'][1]}" in names
    assert names[-1] == "all else"
    assert ax.patches[-1].get_width() == pytest.approx(explanation.remainder[1])
    assert ax.get_xlabel().endswith(f"{model.predict(X[1:2])[0]:.4g}")


def test_explanation_of_a_class(rng):
    X, y = rng.random((90, 3)), np.arange(90) % 3
    explanation = IntersectionGPClassifier(random_state=0).fit(X, y).explain(X[:1])
    ax = plot_explanation(explanation, output=2)
    widths = sorted(bar.get_width() for bar in ax.patches)
    np.testing.assert_allclose(widths, sorted(explanation.values[0, :, 2]))
    for options in ({"row": 1}, {"output": 3}, {"row": -1}, {"max_features": 0}):
        with pytest.raises(ValueError, match=r"give a number from 0|at least 1"):
            plot_explanation(explanation, **options)


def test_maps_of_pairs(rng):
    X = rng.random((150, 4))
    y = 4 * X[:, 0] * X[:, 2] + X[:, 1] + 0.1 * rng.normal(size=150)
    model = IntersectionGPRegressor(
        Intersection() + Interactions([(0, 2), (1, 3)]), random_state=0
    ).fit(X, y)
    names = ["a", "b", "c", "d"]
    axes = plot_pair_functions(model, feature_names=names)
    # The one that varies most comes first.
    assert [(ax.get_xlabel(), ax.get_ylabel()) for ax in axes] == [("a", "c"), ("b", "d")]
    function = model.pair_functions([(0, 2)])[0]
    np.testing.assert_allclose(
        np.ravel(axes[0].collections[0].get_array()), function.values.T.ravel()
    )
    figure, ax = plt.subplots()
    (drawn,) = plot_pair_functions(model, [(2, 0)], bands=False, axes=ax)
    assert drawn is ax
    assert len(ax.collections) == 1
    ax = plot_explanation(model.explain(X[:1]))
    assert f"x0 = {X[0, 0]:.4g}, x2 = {X[0, 2]:.4g}" in labels(ax)
    for arguments, said in (
        ({"output": 1}, "output = 1"),
        ({"pairs": [(0, 1)]}, "not among the pairs"),
        ({"axes": axes[:1]}, "1 axes for 2 pairs"),
    ):
        with pytest.raises(ValueError, match=said):
            plot_pair_functions(model, **arguments)
    with pytest.raises(ValueError, match="has no pairs"):
        plot_pair_functions(IntersectionGPRegressor(random_state=0).fit(X, y))
    plt.close(figure)
