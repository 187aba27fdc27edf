"""Means of covariance matrices, and what is built on them: tangent spaces and recentring."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline

from histrs.metrics import airm_distances, jbld_distances
from histrs.spd import (
    MDM,
    TangentSpace,
    Whitening,
    airm_mean,
    covariance_descriptors,
    jbld_mean,
    log_euclidean_mean,
)
from histrs.testing import spd_matrices
from tests.helpers import wishart
from tests.oracles import spd as oracle

pytestmark = pytest.mark.simd_paths

sizes = st.shared(st.integers(1, 9) | st.sampled_from([12, 13, 17]), key="p")
counts = st.sampled_from([1, 2, 7, 8, 9, 17])
conditions = st.sampled_from([1.0, 10.0, 1e3])
MEANS = {"airm": airm_mean, "jbld": jbld_mean, "logeuclid": log_euclidean_mean}
each_mean = pytest.mark.parametrize("metric", MEANS)
each_search = pytest.mark.parametrize("metric", ["airm", "jbld"])


def ill_conditioned(rng, n, p, condition):
    """Matrices of one condition number, each in directions of its own."""
    values = np.exp(rng.uniform(-0.5, 0.5, (n, p)) * np.log(condition))
    values[:, 0], values[:, -1] = condition**0.5, condition**-0.5
    Q = np.linalg.qr(rng.standard_normal((n, p, p)))[0]
    X = (Q * values[:, None, :]) @ Q.transpose(0, 2, 1)
    return (X + X.transpose(0, 2, 1)) / 2


# ---- means -------------------------------------------------------------------------------------


@each_search
@given(X=spd_matrices((1, 17), sizes, condition=conditions, scale="any"), seed=st.integers(0, 99))
def test_the_gradient_vanishes_at_the_mean(metric, X, seed):
    residual = {"airm": oracle.airm_mean_residual, "jbld": oracle.jbld_mean_residual}[metric]
    weights = np.random.default_rng(seed).random(len(X)) + 0.01
    C, n_iter = MEANS[metric](
        X.astype(np.float64), sample_weight=weights, max_iter=2000, return_n_iter=True
    )
    assert 0 <= n_iter < 2000
    scale = np.abs(X).max()
    left = residual(C / scale, X / scale, weights / weights.sum())
    np.testing.assert_allclose(left, 0.0, atol=1e-6 if metric == "airm" else 1e-7)


@each_search
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tol": 0.0}, "tol = 0.0 is out of range"),
        ({"max_iter": 0}, "max_iter = 0 is out of range"),
        ({"sample_weight": [1.0]}, r"sample_weight has shape \(1,\), expected \(3,\)"),
        ({"sample_weight": [1.0, -1.0, 1.0]}, r"sample_weight\[1\] = -1"),
        ({"sample_weight": [1.0, 1.0, np.nan]}, r"sample_weight\[2\] = nan"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, "zero everywhere"),
    ],
)
def test_what_means_refuse(rng, metric, arguments, message):
    with pytest.raises(ValueError, match=message):
        MEANS[metric](wishart(rng, 3, 2), **arguments)


@given(X=spd_matrices(counts, sizes, condition=conditions), seed=st.integers(0, 99))
def test_log_euclidean_mean_is_its_definition(X, seed):
    X = X.astype(np.float64)
    weights = np.random.default_rng(seed).random(len(X)) + 0.01
    weights /= weights.sum()
    expected = oracle.log_euclidean_mean(X, weights)
    C = log_euclidean_mean(X, sample_weight=3 * weights)
    np.testing.assert_allclose(C, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


@each_search
@pytest.mark.parametrize("condition", [1e2, 1e6, 1e10])
def test_means_converge_at_any_condition(rng, metric, condition):
    """Where directions differ, and where all share them."""
    own = ill_conditioned(rng, 12, 6, condition)
    A = np.linalg.qr(rng.standard_normal((6, 6)))[0] * np.logspace(0, -0.5 * np.log10(condition), 6)
    shared = A @ wishart(rng, 12, 6) @ A.T
    for X in (own, (shared + shared.transpose(0, 2, 1)) / 2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _, n_iter = MEANS[metric](X, tol=1e-10, return_n_iter=True)
        # Of the divergence the step that is left is as short, where the gradient is shorter yet.
        assert n_iter < (60 if metric == "airm" else 80)


def test_the_airm_mean_of_two_is_the_geometric_mean(rng):
    """A (A^-1 B)^1/2, at conditions where its rounding can be told."""
    A, B = wishart(rng, 2, 5)
    W = oracle.matrix_function(A, lambda v: v**-0.5)
    root = oracle.matrix_function(A, np.sqrt)
    expected = root @ oracle.matrix_function(W @ B @ W, np.sqrt) @ root
    np.testing.assert_allclose(airm_mean([A, B], tol=1e-12), expected, rtol=1e-9)
    D = 10.0 ** np.array([[0, 5, -5], [3, -4, 2], [-7, 5, 1]])
    diagonal = D[:, :, None] * np.eye(3)
    C = airm_mean(diagonal, tol=1e-11)
    np.testing.assert_allclose(np.diag(C), np.exp(np.log(D).mean(axis=0)), rtol=1e-9)


@each_mean
def test_weights_and_threads_of_means(rng, metric):
    mean = MEANS[metric]
    X = wishart(rng, 40, 4)
    weights = rng.integers(0, 3, 40)
    C = mean(X, sample_weight=weights)
    np.testing.assert_allclose(C, mean(np.repeat(X, weights, axis=0)), rtol=1e-7)
    for n_jobs in (1, 2, 7):
        np.testing.assert_array_equal(mean(X, sample_weight=weights, n_jobs=n_jobs), C)
    np.testing.assert_allclose(mean(X[:1]), X[0], rtol=1e-12)
    assert mean(X.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match=r"X\[1\] is not positive definite"):
        mean([np.eye(2), -np.eye(2)])
    with pytest.raises(ValueError, match="no matrices"):
        mean(np.empty((0, 2, 2)))


@pytest.mark.parametrize("distance", [1e6, 1e12, 1e16])
def test_the_jbld_mean_of_matrices_that_are_far_apart(rng, distance):
    """Where all are far from the mean, the gradient is small long before it is found."""
    C = jbld_mean([[[1.0]], [[1 / distance]]])
    np.testing.assert_allclose(C, distance**-0.5, rtol=1e-7)
    A = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    # These share their eigenvectors, and of two the mean is the geometric one.
    far = np.array([min(distance, 1e12), 1.0, 2.0])
    pair = np.stack([A @ A.T, A * far @ A.T])
    C = jbld_mean((pair + pair.transpose(0, 2, 1)) / 2, max_iter=200)
    np.testing.assert_allclose(C, A * np.sqrt(far) @ A.T, rtol=1e-4, atol=1e-5 * C.max())


def test_a_jbld_mean_that_rounding_hides_is_said():
    with pytest.warns(ConvergenceWarning, match="jbld_mean stopped"):
        jbld_mean([[[1.0]], [[1e-40]]])


@each_search
def test_means_say_when_they_did_not_converge(rng, metric):
    with pytest.warns(ConvergenceWarning, match=f"{metric}_mean stopped after 1 iterations with a"):
        C, n_iter = MEANS[metric](wishart(rng, 9, 5), max_iter=1, tol=1e-14, return_n_iter=True)
    assert n_iter == 1
    assert C.shape == (5, 5)


def test_roots_keep_half_the_digits_that_eigenvalues_lose():
    rng = np.random.default_rng(0)
    M = ill_conditioned(rng, 1, 6, 1e10)[0]
    model = TangentSpace(M).fit(M[None])
    root, whitener = model.root_, model.whitener_
    np.testing.assert_allclose(root @ root, M, rtol=0, atol=1e-14 * np.abs(M).max())
    np.testing.assert_allclose(root @ whitener, np.eye(6), atol=1e-9)


# ---- TangentSpace ------------------------------------------------------------------------------


@given(X=spd_matrices(counts, sizes, condition=conditions))
def test_coordinates_are_their_definition(X):
    X = X.astype(np.float64)
    M = X.mean(axis=0)
    V = TangentSpace(M).fit(X).transform(X)
    expected = [oracle.tangent_vector(x, M) for x in X]
    np.testing.assert_allclose(V, expected, rtol=1e-7, atol=1e-7)
    V = TangentSpace(np.eye(X.shape[1])).fit(X).transform(X)
    expected = [oracle.tangent_vector(x, np.eye(X.shape[1])) for x in X]
    np.testing.assert_allclose(V, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 8, 23, 33])
def test_coordinates_at_every_size_and_precision(rng, p):
    X = wishart(rng, 11, p)
    M = wishart(rng, 1, p)[0]
    model = TangentSpace(M).fit(X)
    V = model.transform(X)
    assert V.shape == (11, p * (p + 1) // 2)
    np.testing.assert_allclose(V, [oracle.tangent_vector(x, M) for x in X], atol=1e-8)
    np.testing.assert_allclose(
        np.linalg.norm(V, axis=1), airm_distances(X, M[None])[:, 0], rtol=1e-9
    )
    np.testing.assert_allclose(model.inverse_transform(V), X, rtol=1e-8, atol=1e-10)
    single = model.transform(X.astype(np.float32))
    assert single.dtype == model.inverse_transform(single).dtype == np.float32
    np.testing.assert_allclose(single, V, rtol=1e-4, atol=1e-4)
    for n_jobs in (1, 2, 7):
        np.testing.assert_array_equal(TangentSpace(M, n_jobs=n_jobs).fit(X).transform(X), V)


def test_coordinates_do_not_depend_on_their_neighbours(rng):
    """Matrices of any condition are computed side by side, by one method or another."""
    for p in (1, 2, 3, 5, 8, 12, 17):
        X = np.concatenate(
            [ill_conditioned(rng, 3, p, 10.0**power) for power in (0, 1, 2, 3, 4, 5, 7, 9)]
        )
        X *= 10.0 ** rng.integers(-140, 140, (len(X), 1, 1))
        X = X[rng.permutation(len(X))]
        model = TangentSpace(np.eye(p)).fit(X)
        rows = model.transform(X)
        alone = np.concatenate([model.transform(x[None]) for x in X])
        np.testing.assert_array_equal(rows, alone)
        near = X[np.linalg.cond(X) < 1e6]
        D = airm_distances(near[:3], near)
        alone = [airm_distances(near[:3], x[None]) for x in near]
        np.testing.assert_array_equal(D, np.concatenate(alone, axis=1))


def test_coordinates_on_both_sides_of_the_condition_at_which_rotations_take_over(rng):
    for p in (2, 3, 7, 8, 9, 16, 21, 33):
        for condition in (1.0, 27.0, 29.0, 190.0, 1e3, 8e3, 3e4, 4e4, 1e6):
            X = ill_conditioned(rng, 9, p, condition)
            rows = TangentSpace(np.eye(p)).fit(X).transform(X)
            values, vectors = np.linalg.eigh(X)
            logs = (vectors * np.log(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
            i, j = np.triu_indices(p)
            expected = np.where(i == j, 1.0, np.sqrt(2.0)) * logs[:, i, j]
            atol = 1e-14 * p + 1e-15 * p * condition
            np.testing.assert_allclose(rows, expected, rtol=0, atol=atol)
            own = airm_distances(np.eye(p)[None], X)[0]
            np.testing.assert_allclose(own, np.linalg.norm(rows, axis=1), rtol=0, atol=atol)


@pytest.mark.parametrize("reference", ["airm", "riemann", "jbld", "logeuclid", "euclid"])
def test_references_are_the_means(rng, reference):
    X = wishart(rng, 15, 4)
    weights = rng.random(15)
    model = TangentSpace(reference).fit(X, sample_weight=weights)
    means = {**MEANS, "riemann": airm_mean}
    expected = (
        np.average(X, axis=0, weights=weights)
        if reference == "euclid"
        else means[reference](X, sample_weight=weights)
    )
    np.testing.assert_allclose(model.reference_, expected, rtol=1e-7)
    np.testing.assert_allclose(model.root_ @ model.root_, expected, rtol=1e-7)
    np.testing.assert_allclose(model.root_ @ model.whitener_, np.eye(4), atol=1e-10)
    if reference == "airm":  # where coordinates add up to zero
        np.testing.assert_allclose(weights @ model.transform(X), 0.0, atol=1e-7)


def test_names_of_coordinates(rng):
    X = wishart(rng, 5, 3)
    model = TangentSpace().set_output(transform="pandas").fit(X)
    frame = model.transform(X)
    assert list(frame.columns) == ["log_0", "log_0_1", "log_0_2", "log_1", "log_1_2", "log_2"]
    assert list(model.get_feature_names_out(["C3", "Cz", "C4"]))[:2] == ["log_C3", "log_C3_Cz"]
    with pytest.raises(ValueError, match=r"expected \(3,\)"):
        model.get_feature_names_out(["C3"])


def test_a_stream_of_matrices(rng):
    X = wishart(rng, 40, 4)
    whole = TangentSpace().fit(X)
    stream = TangentSpace()
    for start in range(0, 40, 10):
        stream.partial_fit(X[start : start + 10])
    assert stream.weight_seen_ == 40
    # Means of means are near the mean, not equal to it: the space is curved.
    apart = airm_distances(stream.reference_[None], whole.reference_[None])[0, 0]
    first = TangentSpace().fit(X[:10])
    assert apart < 0.3 * airm_distances(first.reference_[None], whole.reference_[None])[0, 0]
    # What is forgotten has no weight: the last batch rules.
    forgetful = TangentSpace(forgetting=0.999).fit(X[:10]).partial_fit(X[10:20])
    last = TangentSpace().fit(X[10:20])
    np.testing.assert_allclose(forgetful.reference_, last.reference_, rtol=0.02, atol=0.01)
    euclid = TangentSpace("euclid").fit(X[:10]).partial_fit(X[10:])
    np.testing.assert_allclose(euclid.reference_, X.mean(axis=0), rtol=1e-12)
    logs = TangentSpace("logeuclid").fit(X[:10]).partial_fit(X[10:])
    np.testing.assert_allclose(logs.reference_, log_euclidean_mean(X), rtol=1e-9)


# ---- Whitening ---------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["airm", "riemann", "jbld", "euclid"])
def test_recentred_matrices_have_the_identity_as_their_mean(rng, metric):
    X = wishart(rng, 24, 4)
    domain = np.array(["a", "b", "c"])[np.arange(24) % 3]
    for k, name in enumerate("abc"):
        A = rng.standard_normal((4, 4)) * 10.0**k
        X[domain == name] = A @ X[domain == name] @ A.T
    X = (X + X.transpose(0, 2, 1)) / 2
    model = Whitening(metric).fit(X, domain=domain)
    assert list(model.domains_) == ["a", "b", "c"]
    np.testing.assert_array_equal(model.weights_seen_, 8)
    out = model.transform(X, domain=domain)
    means = {**MEANS, "riemann": airm_mean, "euclid": lambda X: X.mean(axis=0)}
    for name in "abc":
        np.testing.assert_allclose(means[metric](out[domain == name]), np.eye(4), atol=1e-6)
        D = jbld_distances(X[domain == name])
        np.testing.assert_allclose(jbld_distances(out[domain == name]), D, rtol=1e-7, atol=1e-10)
    np.testing.assert_array_equal(Whitening(metric).fit_transform(X, domain=domain), out)


def test_new_domains_need_no_labels(rng):
    X = wishart(rng, 30, 3)
    model = Whitening().fit(X[:10], domain=np.zeros(10, int))
    with pytest.raises(ValueError, match=r"domain\[1\] = 7 has no mean yet: .*partial_fit"):
        model.transform(X[:2], domain=[0, 7])
    model.partial_fit(X[10:20], domain=np.full(10, 7))
    np.testing.assert_allclose(model.references_[1], airm_mean(X[10:20]), rtol=1e-9)
    with pytest.raises(ValueError, match="means of 2 domains: give domain"):
        model.transform(X)
    model.partial_fit(X[20:], domain=np.full(10, 7))
    np.testing.assert_array_equal(model.weights_seen_, [10, 20])
    both = airm_mean(X[10:])
    assert airm_distances(model.references_[1:], both[None])[0, 0] < 0.1


def test_unseen_domains_are_centred_on_their_own_mean(rng):
    X = wishart(rng, 40, 3)
    domain = np.repeat(["a", "b", "c", "d"], 10)
    model = Whitening(unseen="own mean").fit(X[:20], domain=domain[:20])
    every = Whitening().fit_transform(X, domain=domain)
    # Known and unknown ones in one call, in any order.
    order = rng.permutation(40)
    found = model.transform(X[order], domain=domain[order])
    np.testing.assert_allclose(found, every[order], rtol=1e-7, atol=1e-9)
    assert list(model.domains_) == ["a", "b"]
    # Where none is given, all are of one that is not known.
    np.testing.assert_allclose(model.transform(X[20:30]), every[20:30], rtol=1e-7, atol=1e-9)
    single = Whitening(unseen="own mean").fit(X[:10], domain=domain[:10])
    np.testing.assert_allclose(single.transform(X[:10]), every[:10], rtol=1e-7, atol=1e-9)
    bad = X.copy()
    bad[25, 0, 0] = -1.0
    with pytest.raises(ValueError, match=r"X\[25\] is not positive definite"):
        model.transform(bad, domain=domain)


def test_subjects_are_left_out_in_a_cross_validation(rng):
    """Gains differ between subjects, and hide the classes from a pipeline without the domains."""
    y = np.arange(160) % 2
    subject = np.repeat(np.arange(4), 40)
    A = rng.standard_normal((160, 3, 60))
    A[:, 1] *= 1 + 0.6 * y[:, None]
    A *= 10.0 ** rng.uniform(-2, 2, (4, 3))[subject][:, :, None]
    X = covariance_descriptors(A.transpose(0, 2, 1))
    with config_context(enable_metadata_routing=True):
        whitening = Whitening(unseen="own mean").set_fit_request(domain=True)
        whitening.set_transform_request(domain=True)
        model = make_pipeline(whitening, MDM())
        given = {"domain": subject, "groups": subject}
        for scoring in (None, "neg_log_loss"):
            found = cross_validate(
                model, X, y, cv=LeaveOneGroupOut(), scoring=scoring, params=given
            )["test_score"]
            assert found.min() > (0.8 if scoring is None else -0.5)
        P = cross_val_predict(
            model, X, y, cv=LeaveOneGroupOut(), params=given, method="predict_proba"
        )
    assert np.mean(P.argmax(axis=1) == y) > 0.85
    plain = cross_validate(MDM(), X, y, groups=subject, cv=LeaveOneGroupOut())["test_score"]
    assert plain.mean() < 0.7


def test_whitening_without_domains(rng):
    X = wishart(rng, 9, 3)
    np.testing.assert_allclose(airm_mean(Whitening().fit_transform(X)), np.eye(3), atol=1e-7)


# ---- MDM ---------------------------------------------------------------------------------------


def two_classes(rng, n=60, p=4, strength=0.6):
    y = np.arange(n) % 2
    A = rng.standard_normal((n, p, 30))
    A[:, 1] *= 1 + strength * y[:, None]
    return A @ A.transpose(0, 2, 1) / 30, np.array(["no", "yes"])[y]


def distance_to(metric, X, M):
    if metric in ("airm", "riemann"):
        return oracle.airm(X, M)
    if metric == "jbld":
        return np.sqrt(oracle.jbld(X, M))
    if metric == "logeuclid":
        X, M = oracle.matrix_function(X, np.log), oracle.matrix_function(M, np.log)
    return np.linalg.norm(X - M)


METRICS = ["airm", "riemann", "jbld", "logeuclid", "euclid"]


@pytest.mark.parametrize("metric", METRICS)
def test_the_nearest_mean_decides(rng, metric):
    X, y = two_classes(rng)
    model = MDM(metric).fit(X, y)
    means = {**MEANS, "riemann": airm_mean, "euclid": lambda X: X.mean(axis=0)}
    for label, M in zip(model.classes_, model.means_, strict=True):
        np.testing.assert_allclose(M, means[metric](X[y == label]), rtol=1e-6)
    D = np.array([[distance_to(metric, x, M) for M in model.means_] for x in X])
    np.testing.assert_allclose(model.transform(X), D, rtol=1e-8)
    np.testing.assert_array_equal(model.predict(X), model.classes_[np.argmin(D, axis=1)])
    P = model.predict_proba(X)
    odds = np.exp(-model.inverse_temperature_ * (D[:, 0] ** 2 - D[:, 1] ** 2))
    np.testing.assert_allclose(P[:, 0] / P[:, 1], odds, rtol=1e-6)
    np.testing.assert_array_equal(model.classes_[np.argmax(P, axis=1)], model.predict(X))
    assert model.score(X, y) > 0.8


def test_probabilities_of_the_nearest_mean_are_calibrated():
    """Log loss on new matrices is that of the best inverse temperature, and far from that of 1."""
    X, y = two_classes(np.random.default_rng(0), 1200, 12, 0.25)
    model = MDM().fit(X[:400], y[:400])
    X, y = X[400:], y[400:]
    squares = model.transform(X) ** 2
    own = (y == "yes").astype(int)

    def loss(inverse_temperature):
        z = -inverse_temperature * squares
        return float(np.mean(np.logaddexp(z[:, 0], z[:, 1]) - z[np.arange(len(z)), own]))

    best = min(loss(s) for s in np.geomspace(1e-3, 1e2, 200))
    P = model.predict_proba(X)[np.arange(len(X)), own]
    assert -np.mean(np.log(P)) < 1.05 * best
    np.testing.assert_allclose(-np.mean(np.log(P)), loss(model.inverse_temperature_), rtol=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_means_of_a_stream(rng, metric):
    X, y = two_classes(rng, 240)
    stream = MDM(metric)
    for start in range(0, 200, 20):
        part = slice(start, start + 20)
        stream.partial_fit(X[part], y[part], classes=["no", "yes"])
    whole = MDM(metric).fit(X[:200], y[:200])
    agree = np.mean(stream.predict(X[200:]) == whole.predict(X[200:]))
    assert agree > 0.9
    np.testing.assert_array_equal(stream.weights_seen_, [100, 100])
    assert 0.3 < stream.inverse_temperature_ / whole.inverse_temperature_ < 3
    if metric in ("euclid", "logeuclid"):
        np.testing.assert_allclose(stream.means_, whole.means_, rtol=1e-8)


def test_a_class_that_has_not_come_is_not_predicted(rng):
    X, y = two_classes(rng)
    model = MDM().partial_fit(X[y == "no"], y[y == "no"], classes=["maybe", "no", "yes"])
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], 1.0)
    model.partial_fit(X, y)
    assert set(model.predict(X)) == {"no", "yes"}
    np.testing.assert_array_equal(model.predict_proba(X)[:, 0], 0.0)


def test_what_the_nearest_mean_refuses(rng):
    X, y = two_classes(rng)
    with pytest.raises(ValueError, match="classes must be passed"):
        MDM().partial_fit(X, y)
    model = MDM().partial_fit(X, y, classes=["no", "yes"])
    before = model.means_.copy()
    with pytest.raises(ValueError, match=r"y\[0\] = 'perhaps' is none of the classes"):
        model.partial_fit(X[:2], ["perhaps", "no"])
    with pytest.raises(ValueError, match="not those of the first call"):
        model.partial_fit(X, y, classes=["no", "si"])
    np.testing.assert_array_equal(model.means_, before)


@pytest.mark.parametrize("metric", ["jbld", "riemann"])
def test_matrices_of_a_class_may_differ_by_rounding_alone(metric):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(3, 9))
        C = A @ A.T
        nearly = C * (1.0 + 2e-16 * rng.integers(0, 3))
        X = np.stack([C, nearly, np.eye(3), 2.0 * np.eye(3)])
        P = MDM(metric).fit(X, [0, 0, 1, 1]).predict_proba(X)
        assert np.isfinite(P).all()
