"""Averages of Gaussian processes on tables over rows, with one or two features set."""

from functools import partial

import numpy as np
import pytest
from sklearn.inspection import partial_dependence

from histrs.gaussian_process import TabularGPClassifier, TabularGPRegressor
from histrs.plotting import plot_partial_dependence
from tests.helpers import peak_of_memory

MEMBERS = [["radial"], ["levels"], ["even"], "auto"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 4))
    X[:, 2] = rng.integers(0, 4, 120)
    return X, X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(120)


def plain(members="auto"):
    return TabularGPRegressor(members=members, target_transform="identity", random_state=0)


def by_definition(model, X, found):
    """Mean and deviation of the average, from the joint distribution of all rows."""
    fit = model._fits[0].blend
    mean, variance = [], []
    points = np.stack(np.meshgrid(*found.grid, indexing="ij"), axis=-1)
    for values in points.reshape(-1, len(found.grid)):
        rows = X.copy()
        rows[:, list(found.features)] = values
        rows = model._reader.rows(rows, np.empty((len(rows), 0)))
        means = np.array([member.mean(rows).mean() for member in fit.members])
        covariances = [m.posterior.latent_covariance(m.view(rows)) for m in fit.members]
        variances = np.array([covariance.mean() for covariance in covariances])
        mean.append(fit.weights @ means)
        variance.append(fit.weights @ (variances + (means - mean[-1]) ** 2))
    mean, std = fit.centre + fit.unit * np.array(mean), fit.unit * np.sqrt(variance)
    return mean.reshape(found.mean.shape), std.reshape(found.std.shape)


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("features", [0, (2,), (1, 0), (0, 2)])
def test_mean_and_deviation_are_those_of_the_average(table, members, features):
    X, y = table
    model = plain(members).fit(X, y)
    found = model.partial_dependence(X, features, grid_resolution=4)
    assert found.features == (features if isinstance(features, tuple) else (features,))
    mean, std = by_definition(model, X, found)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-6, atol=1e-7)
    # Both subtract what is known from the prior variance of a vague constant.
    np.testing.assert_allclose(found.std, std, rtol=1e-3)


def test_weights_of_rows_count(table):
    X, y = table
    weight = np.random.default_rng(0).uniform(0.1, 5.0, len(X))
    model = plain().fit(X, y, sample_weight=weight)
    found = model.partial_dependence(X, (0,), grid_resolution=3)
    mean, std = by_definition(model, X, found)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.std, std, rtol=1e-3)


def test_mean_is_scikit_learns(table):
    X, y = table
    model = plain().fit(X, y)
    for features in ((0,), (0, 1)):
        theirs = partial_dependence(
            model,
            X,
            list(features),
            grid_resolution=6,
            percentiles=(0.0, 1.0),
            method="brute",
            kind="average",
        )
        ours = model.partial_dependence(X, features, grid_resolution=6, percentiles=(0.0, 1.0))
        np.testing.assert_allclose(ours.grid, theirs["grid_values"])
        np.testing.assert_allclose(ours.mean, theirs["average"][0], rtol=1e-6, atol=1e-8)


def test_of_classes_there_are_indicators(table):
    X, y = table
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    found = TabularGPClassifier(random_state=0).fit(X, labels).partial_dependence(X, 2)
    np.testing.assert_array_equal(found.grid[0], [0, 1, 2, 3])
    assert found.mean.shape == found.std.shape == (4, 3)
    np.testing.assert_allclose(found.mean.sum(axis=1), 1.0, atol=0.05)
    assert found.mean[0, 0] > found.mean[3, 0] + 0.5
    assert found.mean[3, 2] > found.mean[0, 2] + 0.5
    assert np.all(found.std > 0.0)


def test_several_targets(table):
    X, y = table
    model = plain().fit(X, np.column_stack([y, 100 * X[:, 3]]))
    found = model.partial_dependence(X, (0, 3), grid_resolution=3)
    assert found.mean.shape == found.std.shape == (3, 3, 2)
    assert np.all(found.std[..., 1] < 20)
    assert np.ptp(found.mean[0, :, 1]) > 100


def test_frames_with_categories_and_missing_values():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(
        {
            "dose": rng.uniform(0, 4, n),
            "arm": rng.choice(["drug", "placebo"], n),
            "ward": pd.Categorical(rng.integers(1, 4, n)),
            "old": rng.random(n) > 0.5,
            "visits": rng.integers(0, 3, n),
        }
    )
    y = frame["dose"] * (frame["arm"] == "drug") + 0.1 * rng.normal(size=n)
    frame.loc[::20, "dose"] = np.nan
    frame.loc[::31, "arm"] = None
    model = plain().fit(frame, y)
    before = frame.copy()
    found = model.partial_dependence(frame, ("arm", "dose"), grid_resolution=5)
    pd.testing.assert_frame_equal(frame, before)
    assert found.grid[0].tolist() == ["drug", "placebo"]
    assert np.ptp(found.mean[0]) > 2.5
    assert np.ptp(found.mean[1]) < 1.0
    for name, values in (("ward", [1, 2, 3]), ("old", [False, True]), ("visits", [0, 1, 2])):
        single = model.partial_dependence(frame, name, max_rows=50)
        assert single.grid[0].tolist() == values
        changed = frame.iloc[:1].copy()
        assert np.all(single.std > 0)
        assert model.partial_dependence(changed, name).mean.shape == (1,)


def test_rows_are_drawn_alike(table):
    X, y = table
    model = plain().fit(X, y)
    one, other = (model.partial_dependence(X, 0, max_rows=30) for _ in range(2))
    np.testing.assert_array_equal(one.mean, other.mean)
    assert not np.allclose(one.mean, model.partial_dependence(X, 0, max_rows=None).mean, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"features": 4}, r"feature 4 is not one of 0 to 3"),
        ({"features": (0, 0)}, "two different"),
        ({"features": (0, 1, 2)}, "one feature, or two"),
        ({"features": ()}, "one feature, or two"),
        ({"features": "a"}, "no feature 'a'"),
        ({"features": 0.5}, "by index or by name"),
        ({"features": 0, "grid_resolution": 1}, "grid_resolution"),
        ({"features": 0, "max_rows": 0}, "max_rows"),
        ({"features": 0, "percentiles": (0.9, 0.1)}, "percentiles"),
        ({"features": 0, "percentiles": 0.9}, "percentiles"),
        ({"features": 0, "percentiles": (0.5, 0.5)}, "two ascending numbers"),
        ({"features": 0, "percentiles": (-0.1, 0.5)}, "two ascending numbers"),
        ({"features": 0, "percentiles": (0.5, 1.1)}, "two ascending numbers"),
        ({"features": 0, "percentiles": (0.1, 0.5, 0.9)}, "two ascending numbers"),
    ],
)
def test_bad_arguments_are_named(table, arguments, said):
    X, y = table
    model = plain().fit(X, y)
    with pytest.raises(ValueError, match=said):
        model.partial_dependence(X, **arguments)
    X = np.where(np.arange(4) == 1, np.nan, X)
    with pytest.raises(ValueError, match="missing in every row"):
        model.partial_dependence(X, 1)


def test_a_category_that_is_missing_everywhere_is_named():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"a": rng.random(60), "b": pandas.Categorical(rng.choice(["x", "y"], 60))})
    X.loc[3, "b"] = np.nan
    model = plain().fit(X, X["a"])
    with pytest.raises(ValueError, match="Feature 1 is missing in every row"):
        model.partial_dependence(X[3:4], "b")


def test_covariances_of_rows_are_in_memory_one_group_at_a_time(table):
    X, y = table
    model = plain().fit(X, y)
    # Those of all 400 groups of 120 rows are 46 MB.
    ask = partial(model.partial_dependence, X, (0, 1), grid_resolution=20)
    assert peak_of_memory(ask) < 25e6


def test_drawings(table):
    pytest.importorskip("matplotlib")
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    X, y = table
    model = plain().fit(X, y)
    line = model.partial_dependence(X, 0, grid_resolution=5)
    ax = plot_partial_dependence(line)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), line.mean)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(np.max(line.mean + 2 * line.std))
    assert ax.get_xlabel() == "feature 0"
    both = model.partial_dependence(X, (0, 1), grid_resolution=5)
    _, given = plt.subplots()
    assert plot_partial_dependence(both, feature_names=["a", "b", "c", "d"], ax=given) is given
    assert (given.get_xlabel(), given.get_ylabel()) == ("a", "b")
    np.testing.assert_allclose(np.ravel(given.collections[0].get_array()), both.mean.T.ravel())
    with pytest.raises(ValueError, match="output = 1"):
        plot_partial_dependence(both, output=1)
    plt.close("all")


# ---- parts -------------------------------------------------------------------------------------


def test_the_average_over_one_row_is_its_prediction(table):
    X, y = table
    model = plain().fit(X, y)
    found = model.partial_dependence(X[3:4], 1, max_rows=1)
    assert found.grid[0].tolist() == [X[3, 1]]
    mean, std = model.predict(X[3:4], return_std=True)
    np.testing.assert_allclose(found.mean, mean)
    # Without the noise.
    assert np.all(found.std < std)
    of_list = model.partial_dependence(X[3:4].tolist(), 1)
    np.testing.assert_array_equal(of_list.mean, found.mean)
    # As many rows as are there are no fewer.
    every = model.partial_dependence(X, 0, grid_resolution=2, max_rows=len(X))
    expected = model.partial_dependence(X, 0, grid_resolution=2, max_rows=None)
    np.testing.assert_array_equal(every.mean, expected.mean)
    drawn = model.partial_dependence(X[:2], 1, grid_resolution=2, max_rows=1)
    rows = X[:1].copy(), X[1:2].copy()
    for row in rows:
        row[0, 1] = drawn.grid[0][0]
    assert np.isclose(drawn.mean[0], [model.predict(row)[0] for row in rows]).sum() == 1
