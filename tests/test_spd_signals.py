"""From signals to covariance matrices, their spatial patterns and their artefacts."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn import covariance
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from histrs.metrics import airm_distances, jbld_distances
from histrs.spd import CSP, CommonRange, Covariances, Potato, airm_mean
from histrs.testing import spd_matrices
from tests.helpers import wishart
from tests.oracles import spd as oracle

pytestmark = pytest.mark.simd_paths


def trials(rng, n=5, p=4, n_times=50, dtype=np.float64):
    return (rng.standard_normal((n, p, n_times)) + 3 * np.arange(p)[:, None]).astype(dtype)


# ---- Covariances -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:X has .* times of .* channels")
@given(
    n=st.sampled_from([1, 2, 70]),
    p=st.integers(1, 9),
    n_times=st.sampled_from([2, 3, 8, 63, 64, 65, 700]),
    shrinkage=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_covariances_are_their_definition(n, p, n_times, shrinkage, seed):
    X = trials(np.random.default_rng(seed), n, p, n_times)
    C = Covariances(shrinkage).fit_transform(X)
    expected = [oracle.signal_covariance(x, shrinkage) for x in X[-3:]]
    np.testing.assert_allclose(C[-3:], expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(C, C.transpose(0, 2, 1))


@pytest.mark.parametrize(("p", "n_times"), [(3, 40), (24, 100), (65, 1100), (7, 3)])
@pytest.mark.filterwarnings("ignore:X has .* times of .* channels")
def test_shrinkage_is_that_of_scikit_learn(rng, p, n_times):
    X = trials(rng, 3, p, n_times)
    for shrinkage, function in {
        "scm": covariance.empirical_covariance,
        "oas": lambda x: covariance.oas(x)[0],
        "lwf": lambda x: covariance.ledoit_wolf(x)[0],
    }.items():
        C = Covariances(shrinkage).fit_transform(X)
        np.testing.assert_allclose(C, [function(x.T) for x in X], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(
        Covariances(0.0).fit_transform(X), Covariances("scm").fit_transform(X)
    )


@pytest.mark.parametrize("shrinkage", ["scm", "oas", "lwf", 0.1])
def test_precision_and_layout_of_covariances(rng, shrinkage):
    X = trials(rng, 70, 6, 130, np.float32)
    model = Covariances(shrinkage).fit(X)
    C = model.transform(X)
    assert C.dtype == np.float32
    np.testing.assert_allclose(C, model.transform(X.astype(np.float64)), rtol=3e-6, atol=1e-6)
    for other in (np.asfortranarray(X), X.transpose(2, 1, 0).copy().transpose(2, 1, 0), X.tolist()):
        np.testing.assert_allclose(model.transform(other), C, rtol=3e-6, atol=1e-6)


def test_an_offset_costs_no_digits(rng):
    X = trials(rng, 3, 4, 200)
    C = Covariances("scm").fit_transform(X)
    np.testing.assert_allclose(Covariances("scm").fit_transform(X + 1e6), C, rtol=1e-8, atol=1e-8)


def test_constant_channels_are_named(rng):
    X = trials(rng)
    X[1, 2] = 0.1
    X[3, 0] = -7.0
    with pytest.warns(UserWarning, match=r"Channel 2 of trial 1 is constant \(2 signals are\)"):
        C = Covariances("scm").fit_transform(X)
    assert np.abs(C[1, 2]).max() < 1e-20
    with pytest.warns(UserWarning, match=r"Channel 2 of trial 1 is constant: a variance of 0"):
        Covariances().fit_transform(X[:3])


# ---- CommonRange -------------------------------------------------------------------------------


def test_average_reference_loses_one_dimension(rng):
    X = trials(rng, 9, 6, 80)
    X -= X.mean(axis=1, keepdims=True)
    C = Covariances("scm").fit_transform(X)
    with pytest.raises(ValueError, match=r"singular, of rank 5 in 6 .*CommonRange"):
        airm_distances(C)
    model = CommonRange().fit(C)
    B = model.components_
    assert model.rank_ == B.shape[1] == 5
    np.testing.assert_allclose(B.T @ B, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(B.sum(axis=0), 0.0, atol=1e-9)
    projected = model.transform(C)
    np.testing.assert_allclose(projected, B.T @ C @ B, atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(projected), C, atol=1e-10)
    # The distance is that of any five of the six channels.
    np.testing.assert_allclose(airm_distances(projected), airm_distances(C[:, :5, :5]), rtol=1e-7)


def test_interpolated_channels_differ_between_trials(rng):
    """Each subject has a null direction of its own; the intersection of the ranges remains."""
    X = trials(rng, 8, 7, 80) * 10.0 ** np.arange(7)[:, None]  # units differ
    X[:4, 2] = 0.3 * X[:4, 0] + 0.7 * X[:4, 1]
    X[4:, 5] = 0.5 * X[4:, 3] + 0.5 * X[4:, 4]
    C = Covariances("scm").fit_transform(X)
    model = CommonRange().fit(C)
    assert model.rank_ == 5
    assert np.isfinite(jbld_distances(model.transform(C))).all()


def test_full_rank_changes_nothing(rng):
    C = Covariances().fit_transform(trials(rng))
    np.testing.assert_array_equal(CommonRange().fit_transform(C), C)


def test_single_precision_and_a_channel_of_zeros(rng):
    X = trials(rng, 9, 6, 80, np.float32)
    X -= X.mean(axis=1, keepdims=True)
    with pytest.warns(UserWarning, match="constant"):
        C = Covariances("scm").fit_transform(np.concatenate([X, 0 * X[:, :1]], axis=1))
    projected = CommonRange().fit_transform(C)
    assert projected.shape == (9, 5, 5)
    assert projected.dtype == np.float32
    # Rounded on the way: the tolerance says so.
    assert CommonRange(tol=1e-5).fit(C.astype(np.float64)).rank_ == 5


MOABB = sorted((Path(__file__).parents[1] / "examples" / "moabb").glob("*.yml"))


@pytest.mark.parametrize("path", MOABB, ids=lambda path: path.stem)
def test_pipeline_files_of_moabb_are_pipelines(rng, path):
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content["name"], str)
    assert set(content["paradigms"]) == {"LeftRightImagery", "MotorImagery", "SSVEP"}
    steps = []
    for step in content["pipeline"]:
        made = getattr(import_module(step["from"]), step["name"])()
        steps.append(made.set_params(**step.get("parameters", {})))
    y = np.array(["left_hand", "right_hand"])[np.arange(60) % 2]
    X = rng.standard_normal((60, 4, 128))
    X[y == "left_hand", 0] *= 2.0
    model = make_pipeline(*steps)
    assert model.fit(X[:40], y[:40]).score(X[40:], y[40:]) > 0.9
    assert model.predict_proba(X[40:]).shape == (20, 2)


def test_there_are_pipeline_files_for_moabb():
    assert {path.stem for path in MOABB} == {"gaussian_process", "mdm", "tangent_space"}


# ---- common spatial patterns ---------------------------------------------------------------------


def of_classes(rng, n=60, n_classes=3, p=5, gain=1.8):
    """Matrices of mixed sources, of which each class has a loud one, and their classes."""
    y = np.arange(n) % n_classes
    A = rng.standard_normal((n, p, 80))
    A[np.arange(n), y] *= gain
    A = rng.standard_normal((p, p)) @ A
    return A @ A.transpose(0, 2, 1) / 80, y


def means_of(X, y):
    return np.stack([X[y == c].mean(axis=0) for c in np.unique(y)])


def assert_same_filters(found, expected, rtol=1e-6):
    """Assert that rows are the same but for their signs."""
    signs = np.sign(np.sum(found * expected, axis=1, keepdims=True))
    np.testing.assert_allclose(found * signs, expected, rtol, rtol * np.abs(expected).max())


# ---- filters -----------------------------------------------------------------------------------


@given(X=spd_matrices((4, 12), (2, 7), condition=100.0), seed=st.integers(0, 99))
def test_filters_of_two_classes_are_generalised_eigenvectors(X, seed):
    y = np.random.default_rng(seed).permutation(np.arange(len(X)) % 2)
    first, second = means_of(X, y)
    values = oracle.two_class_ratios(first, second)
    model = CSP(X.shape[1]).fit(X, y)
    assert model.n_iter_ == 0
    W = model.filters_
    found = np.diag(W @ second @ W.T) / np.diag(W @ (first + second) @ W.T)
    np.testing.assert_allclose(np.sort(found), values, rtol=1e-6, atol=1e-9)
    if len(X) % 2 == 0:
        assert np.all(np.diff(np.abs(found - 0.5)) <= 1e-7)
    for C in (first, second):
        D = W @ C @ W.T
        np.testing.assert_allclose(D - np.diag(np.diag(D)), 0.0, atol=1e-8)


@pytest.mark.parametrize("metric", ["euclid", "airm", "logeuclid"])
@pytest.mark.parametrize("n_classes", [3, 4])
def test_filters_of_several_classes_are_the_minimum(rng, metric, n_classes):
    X, y = of_classes(rng, 61, n_classes, p=4)
    model = CSP(4, metric=metric).fit(X, y)
    mean = {
        "euclid": lambda X: X.mean(axis=0),
        "airm": airm_mean,
        "logeuclid": lambda X: oracle.log_euclidean_mean(X, np.full(len(X), 1 / len(X))),
    }[metric]
    C = np.stack([mean(X[y == c]) for c in range(n_classes)])
    shares = np.bincount(y) / len(y)
    W = model.filters_

    def criterion(change):
        return oracle.joint_diagonality((np.eye(4) + change.reshape(4, 4)) @ W, C, shares)

    least = minimize(criterion, np.zeros(16), method="BFGS", options={"gtol": 1e-7})
    assert criterion(np.zeros(16)) <= least.fun + 1e-9
    steps = 1e-5 * np.eye(16)
    slopes = [(criterion(step) - criterion(-step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-6)
    variances = np.einsum("fi,ij,fj->f", W, np.tensordot(shares, C, 1), W)
    np.testing.assert_allclose(variances, 1.0, rtol=1e-9)
    told = [oracle.most_information(w, C, shares) for w in W]
    assert np.all(np.diff(told) <= 1e-9)


def test_sources_that_commute_are_found_exactly(rng):
    """Means that have a common diagonal form have it found, and its mixing as patterns."""
    mixing = rng.standard_normal((6, 6))
    power = rng.uniform(0.5, 3.0, (4, 6))
    C = mixing @ (power[:, :, None] * np.eye(6)) @ mixing.T
    model = CSP(6).fit(np.concatenate([C, C]), np.tile(np.arange(4), 2))
    unmixed = np.abs(model.filters_ @ mixing)
    largest = unmixed.max(axis=1)
    np.testing.assert_allclose(np.sort(unmixed, axis=1)[:, :-1], 0.0, atol=1e-5)
    assert set(unmixed.argmax(axis=1)) == set(range(6))
    patterns = model.patterns_ / np.linalg.norm(model.patterns_, axis=1, keepdims=True)
    sources = (mixing / np.linalg.norm(mixing, axis=0)).T[unmixed.argmax(axis=1)]
    assert_same_filters(patterns, sources, rtol=1e-4)
    assert np.all(largest > 0)
    np.testing.assert_allclose(model.filters_ @ model.patterns_.T, np.eye(6), atol=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("metric", ["euclid", "airm", "jbld", "logeuclid"])
def test_units_do_not_matter(rng, scale, metric):
    X, y = of_classes(rng)
    one, other = (CSP(4, metric=metric).fit(s * X, y).transform(s * X) for s in (1.0, scale))
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def test_shrinkage_is_that_of_the_matrices(rng):
    X, y = of_classes(rng)
    size = np.trace(X, axis1=1, axis2=2)[:, None, None] / 5 * np.eye(5)
    shrunk = CSP(3, shrinkage=0.2).fit(X, y)
    np.testing.assert_allclose(
        shrunk.filters_, CSP(3).fit(0.8 * X + 0.2 * size, y).filters_, rtol=1e-6, atol=1e-9
    )
    np.testing.assert_array_equal(
        CSP(3, shrinkage=0.0).fit(X, y).filters_, CSP(3).fit(X, y).filters_
    )


def test_singular_matrices_need_their_common_range(rng):
    trials = rng.standard_normal((40, 5, 60))
    trials[::2, 0] *= 2.0
    trials -= trials.mean(axis=1, keepdims=True)
    X, y = Covariances("scm").fit_transform(trials), np.arange(40) % 2
    with pytest.raises(
        ValueError, match=r"X\[\d+\] is not positive definite: it is singular, of rank 4 in 5"
    ):
        CSP(2).fit(X, y)
    assert make_pipeline(CommonRange(), CSP(2)).fit_transform(X, y).shape == (40, 2)


# ---- answers -----------------------------------------------------------------------------------


def test_what_transform_returns(rng):
    X, y = of_classes(rng)
    model = CSP(3, log=False).fit(X, y)
    W = model.filters_
    expected = W @ X @ W.T
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(
        model.transform(X.reshape(60, 25)).reshape(60, 3, 3), model.transform(X)
    )
    logs = clone(model).set_params(log=True).fit(X, y)
    diagonal = np.log(np.diagonal(expected, axis1=1, axis2=2))
    np.testing.assert_allclose(logs.transform(X), diagonal, rtol=1e-9, atol=1e-9)


def test_names_are_of_variances_alone(rng):
    pytest.importorskip("pandas")
    X, y = of_classes(rng)
    frame = CSP(2).set_output(transform="pandas").fit(X, y).transform(X)
    assert list(frame.columns) == ["csp0", "csp1"]
    assert not hasattr(CSP(log=False), "get_feature_names_out")


def test_no_more_filters_than_channels(rng):
    X, y = of_classes(rng, p=3)
    assert CSP(12).fit(X, y).filters_.shape == (3, 3)


# ---- what it refuses ---------------------------------------------------------------------------


def test_classes_of_one_mean_are_no_failure(rng):
    X = wishart(rng, 10, 4)
    model = CSP(2).fit(np.tile(X, (3, 1, 1)), np.repeat([0, 1, 2], 10))
    np.testing.assert_allclose(np.exp(model.transform(X)).mean(axis=0), 1.0, rtol=1e-6)


def test_a_search_that_stops_early_says_so(rng, monkeypatch):
    monkeypatch.setattr("histrs.spd._csp._MAX_ITER", 2)
    X, y = of_classes(rng)
    with pytest.warns(ConvergenceWarning, match="CSP stopped after"):
        CSP().fit(X, y)


# ---- the detector of artefacts -------------------------------------------------------------------


def recording(rng, n=60, p=4, loud=(3, 17, 40)):
    """Clean matrices, and a few with a loud channel."""
    X = wishart(rng, n, p)
    gains = np.ones((n, p))
    gains[list(loud), 1] = 20.0
    return X * gains[:, :, None] * gains[:, None]


@pytest.mark.parametrize("threshold", [1.5, 2.5, 3.0])
def test_scores_are_those_of_the_definition(rng, threshold):
    X = recording(rng)
    mean, z = oracle.potato(X, threshold)
    model = Potato(threshold=threshold).fit(X)
    np.testing.assert_allclose(model.mean_, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.transform(X), z, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), z < threshold)
    assert model.n_iter_ > 1
    np.testing.assert_array_equal(model.fit_transform(X), model.transform(X))


@pytest.mark.parametrize("metric", ["airm", "jbld", "logeuclid", "euclid"])
def test_artefacts_are_found_in_every_metric(rng, metric):
    X = recording(rng, 120)
    model = Potato(metric, threshold=2.5).fit(X)
    found = set(np.flatnonzero(model.predict(X) == 0))
    assert {3, 17, 40} <= found
    assert len(found) < 10
    other = recording(rng, 20, loud=(5,))
    assert np.argmax(model.transform(other)) == 5
    assert model.predict(other)[5] == 0


def test_an_update_is_the_mean_of_all_clean_matrices(rng):
    X = wishart(rng, 90, 3)
    model = Potato(threshold=50.0).fit(X[:30])
    for part in (X[30:50], X[50:]):
        model.partial_fit(part)
    assert model.weight_seen_ == 90
    np.testing.assert_allclose(model.mean_, airm_mean(X), rtol=0.05, atol=0.05)
    whole = Potato(threshold=50.0).fit(X)
    assert model.location_ == pytest.approx(whole.location_, abs=0.1)
    assert model.scale_ == pytest.approx(whole.scale_, rel=0.2)
    # Of the same matrices again, nothing moves.
    again = Potato(threshold=50.0).fit(X).partial_fit(X)
    np.testing.assert_allclose(again.mean_, whole.mean_, rtol=1e-7)
    assert again.location_ == pytest.approx(whole.location_, abs=1e-7)
    assert again.scale_ == pytest.approx(whole.scale_, rel=1e-7)


def test_artefacts_move_nothing(rng):
    X = recording(rng, loud=())
    model = Potato().fit(X)
    before = model.transform(X)
    model.partial_fit(recording(rng, 4, loud=range(4)))
    np.testing.assert_array_equal(model.transform(X), before)


def test_old_matrices_are_forgotten(rng):
    """A recording whose amplitude drifts is followed, where one that forgets nothing lags."""
    X = wishart(rng, 400, 3) * np.exp(np.linspace(0.0, 5.0, 400))[:, None, None]
    scores = {}
    for forgetting in (0.0, 0.3):
        model = Potato(threshold=10.0, forgetting=forgetting).fit(X[:40])
        for i in range(40, 400, 10):
            last = model.transform(X[i : i + 10])
            model.partial_fit(X[i : i + 10])
        scores[forgetting] = np.mean(last)
    assert scores[0.3] < scores[0.0] - 0.5


def test_a_score_is_that_of_the_matrix_alone(rng):
    X = recording(rng)
    model = Potato().fit(X)
    z = model.transform(X)
    np.testing.assert_allclose(np.concatenate([model.transform(x[None]) for x in X]), z, rtol=1e-9)
    assert np.isfinite(model.transform(model.mean_[None])).all()


def test_a_detector_that_stops_early_says_so(rng):
    X = recording(rng)
    with pytest.warns(ConvergenceWarning, match="Potato still left matrices out"):
        Potato(max_iter=1).fit(X)


@pytest.mark.parametrize("forgetting", [0.1, 0.3])
def test_a_long_stream_of_clean_matrices_stays_clean(forgetting):
    A = np.random.default_rng(0).standard_normal((160, 4, 50))
    stack = A @ A.transpose(0, 2, 1) / 50
    model = Potato(forgetting=forgetting).fit(stack[:60])
    for i in range(60, 160):
        model.partial_fit(stack[i][None])
    assert model.predict(stack).mean() > 0.95


def test_a_matrix_at_the_mean_hides_no_artefacts():
    A = np.random.default_rng(0).standard_normal((35, 4, 50))
    stack = A @ A.transpose(0, 2, 1) / 50
    model = Potato().fit(stack[:30])
    model.partial_fit(model.mean_[None])
    loud = np.array([1.0, 1.0, 1.0, 30.0])
    assert not model.predict(stack[30:] * np.outer(loud, loud)).any()
