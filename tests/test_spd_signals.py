"""From signals to covariance matrices of full rank: `Covariances` and `CommonRange`."""

import pickle
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn import covariance
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from histrs.metrics import airm_distances, jbld_distances
from histrs.spd import CommonRange, Covariances
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


def test_pyriemann_agrees(rng):
    estimation = pytest.importorskip("pyriemann.estimation", reason="pyriemann is not installed")
    X = trials(rng, 6, 5, 64)
    for shrinkage in ("scm", "oas", "lwf"):
        expected = estimation.Covariances(shrinkage).fit_transform(X)
        np.testing.assert_allclose(Covariances(shrinkage).fit_transform(X), expected, rtol=1e-10)


@pytest.mark.parametrize("shrinkage", ["scm", "oas", "lwf", 0.1])
def test_precision_layout_and_threads_of_covariances(rng, shrinkage):
    X = trials(rng, 70, 6, 130, np.float32)
    model = Covariances(shrinkage).fit(X)
    C = model.transform(X)
    assert C.dtype == np.float32
    np.testing.assert_allclose(C, model.transform(X.astype(np.float64)), rtol=3e-6, atol=1e-6)
    for other in (np.asfortranarray(X), X.transpose(2, 1, 0).copy().transpose(2, 1, 0), X.tolist()):
        np.testing.assert_allclose(model.transform(other), C, rtol=3e-6, atol=1e-6)
    for n_jobs in (1, 2, 7):
        np.testing.assert_array_equal(clone(model).set_params(n_jobs=n_jobs).fit(X).transform(X), C)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), C)


def test_an_offset_costs_no_digits(rng):
    X = trials(rng, 3, 4, 200)
    C = Covariances("scm").fit_transform(X)
    np.testing.assert_allclose(Covariances("scm").fit_transform(X + 1e6), C, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_named(rng, value):
    X = trials(rng)
    X[3, 2, 17] = value
    with pytest.raises(
        ValueError, match=r"X\[3, 2, 17\] = .*drop trial 3, or interpolate channel 2"
    ):
        Covariances().fit(X).transform(X)


def test_constant_channels_are_named(rng):
    X = trials(rng)
    X[1, 2] = 0.1
    X[3, 0] = -7.0
    with pytest.warns(UserWarning, match="Channel 2 of trial 1 is constant, and 1 more signals"):
        C = Covariances("scm").fit_transform(X)
    assert np.abs(C[1, 2]).max() < 1e-20
    with pytest.warns(UserWarning, match=r"Channel 2 of trial 1 is constant: without variance"):
        Covariances().fit_transform(X[:3])


def test_values_too_large_to_square_are_named(rng):
    X = trials(rng)
    X[2] *= 1e200
    with pytest.raises(ValueError, match=r"X\[2\] has values whose squares overflow"):
        Covariances().fit_transform(X)
    X = trials(rng, dtype=np.float32)
    X[4] *= 1e25
    with pytest.raises(ValueError, match=r"X\[4\] has values whose squares overflow"):
        Covariances().fit_transform(X)


class Epochs:
    """What MNE hands out."""

    def get_data(self):
        raise AssertionError


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (
            np.ones((4, 50)),
            r"shape \(n_trials, n_channels, n_times\); a single trial x is x\[None\]",
        ),
        (np.ones((4, 50, 2, 2)), r"shape \(n_trials, n_channels, n_times\)\."),
        (np.ones((4, 3, 1)), "two times"),
        ([np.ones((3, 9)), np.ones((3, 8))], r"X\[1\] has shape \(3, 8\), and X\[0\] \(3, 9\)"),
        (Epochs(), r"give its signals, X\.get_data\(\)"),
        (sparse.eye_array(3), "Sparse data"),
    ],
)
def test_signals_are_recognised(X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Covariances().fit(X)


def test_what_covariances_refuse(rng):
    X = trials(rng)
    with pytest.raises(ValueError, match="shrinkage"):
        Covariances("cov").fit(X)
    with pytest.raises(ValueError, match="shrinkage"):
        Covariances(1.5).fit(X)
    with pytest.raises(NotFittedError):
        Covariances().transform(X)
    with pytest.raises(ValueError, match="X has 3 channels, but Covariances was fitted with 4"):
        Covariances().fit(X).transform(X[:, :3])


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
    flat = C.reshape(len(C), -1)
    np.testing.assert_array_equal(CommonRange().fit_transform(flat), flat)


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


@pytest.mark.filterwarnings("ignore:X has .* times of .* channels")
def test_what_common_range_refuses(rng):
    few = Covariances("scm").fit_transform(trials(rng, 20, 8, 5))
    with pytest.raises(ValueError, match="no direction in which all matrices have variance"):
        CommonRange().fit(few)
    with pytest.raises(ValueError, match=r"X\[0, 0, 0\] = -1: the variance"):
        CommonRange().fit(-np.eye(3)[None])
    with pytest.raises(NotFittedError):
        CommonRange().transform(few)
    model = CommonRange().fit(np.eye(3)[None])
    with pytest.raises(ValueError, match=r"shape \(n, 3, 3\)"):
        model.inverse_transform(np.eye(2)[None])


def test_a_pipeline_of_average_referenced_signals(rng):
    X = trials(rng, 9, 6, 80)
    X -= X.mean(axis=1, keepdims=True)
    model = make_pipeline(Covariances("scm"), CommonRange())
    assert np.isfinite(airm_distances(model.fit_transform(X))).all()


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
