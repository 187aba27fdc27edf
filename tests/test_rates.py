"""Counts and positive numbers as targets: Poisson and gamma likelihoods."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import GammaRegressor, PoissonRegressor
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance
from sklearn.model_selection import cross_val_score

from histrs.gaussian_process import GPRegressor, IntersectionGPRegressor, SPDGPRegressor
from histrs.gaussian_process.kernels import Interactions, Intersection, Linear, Radial
from tests.helpers import assert_close, build
from tests.oracles import laplace, rates
from tests.oracles.intersection import intersection_kernel

each = pytest.mark.parametrize
LIKELIHOODS = each("likelihood", ["poisson", "gamma"])
KEPT = {"optimizer": None, "feature_weights": None, "tol": 1e-10, "variance": "exact"}


def drawn(likelihood, mean, dispersion, rng):
    """Return targets of these means, and of this dispersion."""
    if likelihood == "gamma":
        return rng.gamma(1.0 / dispersion, dispersion * mean)
    excess = dispersion - 1.0
    return rng.poisson(rng.gamma(mean / excess, excess) if excess > 0.0 else mean).astype(float)


def sample(likelihood, n=80, dispersion=None, seed=0):
    rng = np.random.default_rng(seed)
    dispersion = dispersion or {"poisson": 1.0, "gamma": 0.2}[likelihood]
    X, exposure = rng.random((n, 3)), rng.uniform(0.5, 20.0, n)
    log_rate = 2.0 * X[:, 0] - 3.0 * (X[:, 1] - 0.5) ** 2 + 0.3
    return X, drawn(likelihood, exposure * np.exp(log_rate), dispersion, rng), exposure, log_rate


def kept(likelihood, **given):
    return build(IntersectionGPRegressor, likelihood=likelihood, **{**KEPT, **given})


def by_definition(likelihood, X, y, exposure, weights, others, amplitude, dispersion):
    """Log rates elsewhere, their variances and the evidence."""
    r = y / exposure
    w = weights * exposure if likelihood == "poisson" else weights
    level = np.average(r, weights=w)
    unit = level if likelihood == "poisson" else 1.0
    w = w * unit / dispersion
    C = laplace.latent_covariance(intersection_kernel(X, X), amplitude)
    f = rates.mode(likelihood, C, r / level, w)
    cross = laplace.latent_covariance(intersection_kernel(others, X), amplitude)
    prior = laplace.latent_covariance(others.sum(axis=1), amplitude)
    found = rates.prediction(likelihood, C, cross, prior, f, r / level, w)
    return found[0] + np.log(level), found[1], rates.log_evidence(likelihood, C, f, r / level, w)


# ---- what is computed ----------------------------------------------------------------------------


@LIKELIHOODS
@each("amplitude", [1e-3, 0.7, 30.0])
@each("dispersion", [1.0, 3.0])
@each("solver", ["cholesky", "cg"])
def test_is_laplaces_approximation(likelihood, amplitude, dispersion, solver):
    X, y, exposure, _ = sample(likelihood)
    rng = np.random.default_rng(1)
    others, weights = rng.random((11, 3)), rng.choice([0.5, 1.0, 2.0], len(y))
    expected, variance, evidence = by_definition(
        likelihood, X, y, exposure, weights, others, amplitude, dispersion
    )
    model = kept(likelihood, amplitude=amplitude, noise=dispersion, solver=solver)
    model.fit(X, y, weights, exposure=exposure)
    mean, found = model.latent_mean_and_variance(others)
    assert_close(mean, expected, 1e-6)
    assert_close(found, variance, 1e-5)
    assert_close(np.log(model.predict(others)), expected, 1e-6)
    if solver == "cholesky":
        assert np.isclose(model.log_marginal_likelihood(), evidence, rtol=1e-8)


@each(("likelihood", "peer"), [("poisson", PoissonRegressor), ("gamma", GammaRegressor)])
def test_agrees_with_penalised_linear_models(likelihood, peer):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = drawn(
        likelihood, 3.0 * np.exp(X @ [0.5, -0.3, 0.0]), {"gamma": 0.2}.get(likelihood, 1.0), rng
    )
    amplitude, dispersion = 0.01, 1.0
    model = GPRegressor(
        amplitude * Linear(1.0), noise=dispersion, optimizer=None, likelihood=likelihood, tol=1e-8
    ).fit(X, y)
    # Their penalty is of a mean over the rows, and their intercept has none.
    expected = peer(alpha=dispersion / (amplitude * len(y)), tol=1e-10, max_iter=10_000)
    expected.fit(X - X.mean(axis=0), y)
    assert_close(np.log(model.predict(X)), np.log(expected.predict(X - X.mean(axis=0))), 1e-3)


# ---- what users rely on --------------------------------------------------------------------------


@LIKELIHOODS
@each("kernel", [Intersection(), Intersection(levels=16), Radial()])
def test_finds_rates_and_dispersion(likelihood, kernel):
    dispersion = {"poisson": 2.5, "gamma": 0.3}[likelihood]
    X, y, exposure, log_rate = sample(likelihood, 800, dispersion)
    model = GPRegressor(kernel, likelihood=likelihood, random_state=0)
    model.fit(X[:600], y[:600], exposure=exposure[:600])
    error = np.log(model.predict(X[600:])) - log_rate[600:]
    assert np.sqrt(np.mean(error**2)) < 0.2
    assert 0.7 * dispersion < model.noise_ < 1.4 * dispersion


@LIKELIHOODS
def test_quantiles_cover(likelihood):
    dispersion = {"poisson": 3.0, "gamma": 0.4}[likelihood]
    X, y, exposure, _ = sample(likelihood, 3000, dispersion, seed=2)
    model = IntersectionGPRegressor(Intersection(levels=32), likelihood=likelihood, random_state=0)
    model.fit(X[:1000], y[:1000], exposure=exposure[:1000])
    rest = X[1000:], exposure[1000:]
    mean, (low, high) = (
        model.predict(rest[0], exposure=rest[1]),
        np.transpose(model.predict(rest[0], return_quantiles=[0.025, 0.975], exposure=rest[1])[1]),
    )
    inside = (y[1000:] >= low) & (y[1000:] <= high)
    assert 0.92 < np.mean(inside) < 0.99
    _, std = model.predict(rest[0], return_std=True, exposure=rest[1])
    assert 0.85 < np.sqrt(np.mean(((y[1000:] - mean) / std) ** 2)) < 1.15
    assert np.all(low >= 0.0)
    if likelihood == "poisson":
        assert np.all(low == np.round(low))


def test_counts_of_independent_events_have_dispersion_one():
    X, y, exposure, _ = sample("poisson", 400)
    model = IntersectionGPRegressor(likelihood="poisson", random_state=0)
    assert 1.0 <= model.fit(X, y, exposure=exposure).noise_ < 1.2
    assert kept("poisson").fit(X, y).noise_ == 1.0


def test_rare_counts_are_told_better_than_by_least_squares():
    X, y, _, _ = sample("poisson", 2000)
    rare = np.random.default_rng(0).binomial(y.astype(int), 0.02).astype(float)
    kernel = Intersection(levels=32)
    deviances = []
    for likelihood in ("poisson", "gaussian"):
        model = IntersectionGPRegressor(kernel, likelihood=likelihood, random_state=0)
        mean = model.fit(X[:1000], rare[:1000]).predict(X[1000:])
        deviances.append(mean_poisson_deviance(rare[1000:], np.maximum(mean, 1e-3)))
    assert deviances[0] < deviances[1]


def test_pairs_of_columns_tell_rates():
    rng = np.random.default_rng(0)
    X = rng.random((2000, 3))
    log_rate = 4.0 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5) * 4.0
    y = rng.poisson(2.0 * np.exp(log_rate)).astype(float)
    kernel = Intersection(levels=16) + Interactions([(0, 1)])
    scores = [
        IntersectionGPRegressor(k, likelihood="poisson", random_state=0)
        .fit(X[:1500], y[:1500])
        .score(X[1500:], y[1500:])
        for k in (Intersection(levels=16), kernel)
    ]
    assert scores[0] < 0.4 < 0.8 < scores[1]


@LIKELIHOODS
def test_exposure_is_an_offset_and_scales_means(likelihood):
    X, y, exposure, _ = sample(likelihood)
    model = kept(likelihood, noise=1.0).fit(X, y, exposure=exposure)
    same = kept(likelihood, noise=1.0).fit(X, y, offset=np.log(exposure))
    assert_close(same.predict(X), model.predict(X), 1e-9)
    asked = model.predict(X, exposure=exposure)
    assert_close(asked, model.predict(X) * exposure, 1e-12)
    assert_close(model.predict(X, offset=np.log(exposure)), asked, 1e-12)
    once, twice = (model.predict(X, True, exposure=k * exposure)[1] for k in (1.0, 2.0))
    assert np.all(twice > once)


def test_counts_of_one_row_add_up():
    X, y, exposure, _ = sample("poisson")
    more = y + 3.0, exposure + 1.5
    together = kept("poisson").fit(X, y + more[0], exposure=exposure + more[1])
    apart = kept("poisson").fit(
        np.vstack([X, X]), np.append(y, more[0]), exposure=np.append(exposure, more[1])
    )
    assert_close(apart.predict(X), together.predict(X), 1e-6)


@LIKELIHOODS
def test_weights_are_repeats(likelihood):
    X, y, exposure, _ = sample(likelihood)
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    weighted = kept(likelihood, noise=2.0).fit(X, y, weights, exposure=exposure)
    repeated = kept(likelihood, noise=2.0).fit(X[rows], y[rows], exposure=exposure[rows])
    assert_close(weighted.predict(X), repeated.predict(X), 1e-6)


@LIKELIHOODS
@each("kernel", [Intersection(), Intersection(levels=8)])
def test_rows_come_and_go(likelihood, kernel):
    X, y, exposure, _ = sample(likelihood)
    options = {"likelihood": likelihood, "noise": 1.5, "optimizer": None, "tol": 1e-9}
    model = IntersectionGPRegressor(kernel, **options).fit(X[:50], y[:50], exposure=exposure[:50])
    model.partial_fit(X[50:], y[50:], exposure=exposure[50:]).forget(np.arange(20))
    if kernel.levels is None:
        # The unit of the weights is that of the first rows.
        expected = IntersectionGPRegressor(kernel, **options)
        expected.fit(X[20:], y[20:], exposure=exposure[20:])
        assert_close(np.log(model.predict(X)), np.log(expected.predict(X)), 0.01)
    again = pickle.loads(pickle.dumps(model))
    assert_close(again.predict(X), model.predict(X), 1e-9)
    assert len(model.X_fit_) == 60


@LIKELIHOODS
def test_score_is_the_explained_deviance(likelihood):
    X, y, exposure, _ = sample(likelihood, 300)
    model = kept(likelihood, noise=1.0).fit(X, y, exposure=exposure)
    power = {"poisson": 1, "gamma": 2}[likelihood]
    weights = exposure if likelihood == "poisson" else None
    expected = d2_tweedie_score(y / exposure, model.predict(X), power=power, sample_weight=weights)
    assert np.isclose(model.score(X, y, exposure=exposure), expected)
    assert np.mean(cross_val_score(model, X, np.round(y) + 1.0)) < 1.0


def test_explanations_are_of_the_log_rate():
    X, y, exposure, _ = sample("poisson")
    model = kept("poisson").fit(X, y, exposure=exposure)
    parts = model.explain(X[:9])
    assert_close(parts.values.sum(axis=1) + parts.offset, np.log(model.predict(X[:9])), 1e-8)


def test_gaussian_targets_have_offsets():
    X, y, _, log_rate = sample("gamma", 100)
    offset = 10.0 * X[:, 2]
    model = IntersectionGPRegressor(random_state=0).fit(X, log_rate + offset, offset=offset)
    plain = IntersectionGPRegressor(random_state=0).fit(X, log_rate)
    assert_close(model.predict(X, offset=offset), plain.predict(X) + offset, 1e-8)
    assert np.isclose(model.score(X, log_rate + offset, offset=offset), plain.score(X, log_rate))
    two = IntersectionGPRegressor(optimizer=None).fit(
        X, np.c_[y, y] + offset[:, None], offset=offset
    )
    assert two.predict(X, offset=offset).shape == (100, 2)


def test_other_kernels_take_counts():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 3, 30))
    X = A @ A.transpose(0, 2, 1) / 30
    y = rng.poisson(20.0 * np.linalg.det(X)).astype(float)
    model = SPDGPRegressor(likelihood="poisson", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.3


# ---- the edges -----------------------------------------------------------------------------------


@LIKELIHOODS
@given(power=st.integers(-9, 9))
def test_units_of_exposure_change_nothing_else(likelihood, power):
    X, y, exposure, _ = sample(likelihood, 30)
    unit = 10.0**power
    model = kept(likelihood, noise=1.0).fit(X, y, exposure=exposure)
    scaled = kept(likelihood, noise=1.0).fit(X, y, exposure=unit * exposure)
    assert_close(scaled.predict(X) * unit, model.predict(X), 1e-6)


def test_no_events_at_all():
    X = np.random.default_rng(0).random((40, 2))
    model = IntersectionGPRegressor(likelihood="poisson", random_state=0)
    with pytest.warns(ConvergenceWarning, match="y is constant"):
        model.fit(X, np.zeros(40))
    mean, std = model.predict(X, return_std=True)
    assert np.all((mean > 0.0) & (mean < 0.1))
    assert np.all(np.isfinite(std))


@LIKELIHOODS
def test_few_rows_and_huge_targets(likelihood):
    model = kept(likelihood, noise=1.0)
    assert model.fit([[1.0]], [7.0]).predict([[1.0]])[0] == pytest.approx(7.0, rel=0.2)
    X, y, exposure, _ = sample(likelihood)
    huge = kept(likelihood, noise=1.0).fit(X, 1e6 * y, exposure=exposure)
    assert np.all(np.isfinite(huge.predict(X, True)))


def test_rows_and_counts_of_single_precision_have_such_answers():
    X, y, exposure, _ = sample("poisson")
    model = kept("poisson").fit(X.astype(np.float32), y.astype(np.float32), exposure=exposure)
    found = model.predict(X.astype(np.float32), return_std=True)
    assert [part.dtype for part in found] == [np.float32, np.float32]
    assert model.predict(X).dtype == np.float64


def test_targets_without_noise_are_solved():
    X, _, _, log_rate = sample("gamma", 200)
    model = IntersectionGPRegressor(Intersection(levels=32), likelihood="gamma", random_state=0)
    assert model.fit(X, np.exp(log_rate)).score(X, np.exp(log_rate)) > 0.99


@each("n", [15, 60])
def test_one_large_count_is_no_breakdown(n):
    X, y, _, _ = sample("poisson", n)
    y[0] = 1e5
    model = IntersectionGPRegressor(likelihood="poisson", random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.predict(X, True)))


@each(
    ("likelihood", "y", "given", "message"),
    [
        ("poisson", [1.0, -2.0, 3.0], {}, r"y\[1\] = -2.0 is negative, .*leave the row out"),
        ("gamma", [1.0, 0.0, 3.0], {}, r"y\[1\] = 0.0 is not positive"),
        ("poisson", [1.0, np.nan, 3.0], {}, "NaN"),
        ("poisson", [[1.0, 2.0], [1.0, 2.0], [3.0, 1.0]], {}, "1d array"),
        ("poisson", [1.0, 2.0, 3.0], {"exposure": [1.0, 0.0, 2.0]}, "is 0.0 in row 1"),
        ("poisson", [1.0, 2.0, 3.0], {"exposure": [1.0, -1.0, 2.0]}, "is -1.0 in row 1"),
        ("poisson", [1.0, 2.0, 3.0], {"exposure": [1.0, 2.0]}, "exposure has 2 entries, and .* 3"),
        ("gamma", [1.0, 2.0, 3.0], {"offset": [1.0, np.inf, 2.0]}, r"offset\[1\] = inf"),
        ("poisson", [1.0, 2.0, 3.0], {"offset": [0.0, 1e4, 0.0]}, "is inf in row 1"),
        ("gaussian", [1.0, 2.0, 3.0], {"exposure": [1.0, 1.0, 1.0]}, "exposure is of counts"),
        ("binomial", [1.0, 2.0, 3.0], {}, "likelihood"),
    ],
)
def test_bad_input_leaves_all_as_it_was(likelihood, y, given, message):
    X = [[1.0], [2.0], [3.0]]
    model = IntersectionGPRegressor(optimizer=None).fit(X, [1.0, 2.0, 4.0])
    before = model.predict(X)
    changed = clone(model).set_params(likelihood=likelihood)
    changed.__dict__.update({**model.__dict__, "likelihood": likelihood})
    with pytest.raises(ValueError, match=message):
        changed.fit(X, y, **given)
    changed.likelihood = "gaussian"
    assert np.array_equal(changed.predict(X), before)


@each(
    "ask",
    [
        lambda model, X: model.predict(X, return_cov=True),
        lambda model, X: model.sample_y(X),
        lambda model, X: model.predict_leave_one_out(),
        lambda model, X: model.std_bounds(X),
        lambda model, X: model.save("nowhere"),
        lambda model, X: model.export_tables(),
    ],
)
def test_refuses_what_is_of_gaussian_noise(ask):
    X, y, _, _ = sample("poisson", 20)
    model = kept("poisson").fit(X, y)
    with pytest.raises(ValueError, match="does not work with likelihood='poisson'"):
        ask(model, X)
    with pytest.raises(ValueError, match="exposure has 1 entries"):
        model.predict(X, exposure=[1.0])


def test_dask_arrays_have_gaussian_noise():
    dask = pytest.importorskip("dask.array")
    X, y, _, _ = sample("poisson", 20)
    with pytest.raises(ValueError, match="dask array does not work with likelihood='poisson'"):
        IntersectionGPRegressor(likelihood="poisson").fit(dask.from_array(X, chunks=10), y)
