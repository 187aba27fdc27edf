"""Gaussian processes on covariance matrices against their definition."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.metrics import log_loss
from sklearn.utils import get_tags

from histrs._calibration import fit_calibration
from histrs.gaussian_process import LikelihoodSearch, SPDGPClassifier, SPDGPRegressor
from histrs.gaussian_process._learning.leave_one_out import WithLevel
from histrs.gaussian_process.kernels import Constant, Divergence, LogEuclidean, Tangent
from histrs.metrics import jbld_kernel, log_euclidean_kernel
from histrs.spd import MDM, TangentSpace, airm_mean
from tests.helpers import assert_close, assert_slope, left_out_scores, of_terms
from tests.oracles import leave_one_out
from tests.oracles import spd as oracle

pytestmark = pytest.mark.simd_paths

NOISE, AMPLITUDE, GAMMA = 0.2, 1.5, 0.7
KINDS = {"tangent": Tangent, "logeuclid": LogEuclidean, "jbld": Divergence}
KERNELS = list(KINDS)
FIXED = {"noise": NOISE, "optimizer": None}


def given(kernel="tangent", gamma=GAMMA):
    """Return parameters of a fit that learns nothing."""
    return {"kernel": AMPLITUDE * KINDS[kernel](gamma), **FIXED}


GIVEN = given()
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


def matrices(rng, n, p=3):
    A = rng.standard_normal((n, p, 20))
    X = A @ A.transpose(0, 2, 1) / 20
    y = 5.0 + np.log(np.linalg.det(X)) + X[:, 0, 1] + 0.1 * rng.standard_normal(n)
    return X, y


def covariance(kernel, X, Z, gamma, reference):
    """Of each pair, by the definition of the kernel."""
    if kernel == "jbld":
        D = oracle.all_pairs(oracle.jbld, X, Z)
        if gamma in (0.5, 1.0):
            return np.exp(-gamma * D)
        below = np.floor(2 * gamma) / 2  # p = 3: definite at 1/2 and from 1 on
        share = 2 * (gamma - below)
        return (1 - share) * np.exp(-below * D) + share * np.exp(-(below + 0.5) * D)
    M = reference if kernel == "tangent" else np.eye(X.shape[1])
    V, W = ([oracle.tangent_vector(x, M) for x in side] for side in (X, Z))
    return np.array([[np.exp(-gamma * np.sum((v - w) ** 2)) for w in W] for v in V])


@each_kernel
def test_predictions_are_their_definition(rng, kernel):
    (X, y), (X_star, _) = matrices(rng, 40), matrices(rng, 7)
    model = SPDGPRegressor(**given(kernel), random_state=0).fit(X, y)
    reference = airm_mean(X)
    A = AMPLITUDE * covariance(kernel, X, X, GAMMA, reference) + NOISE * np.eye(40)
    k = AMPLITUDE * covariance(kernel, X, X_star, GAMMA, reference)
    mean = y.mean() + k.T @ np.linalg.solve(A, y - y.mean())
    prior = AMPLITUDE * covariance(kernel, X_star, X_star, GAMMA, reference)
    latent = prior - k.T @ np.linalg.solve(A, k)
    found, cov = model.predict(X_star, return_cov=True)
    assert_close(found, mean, 1e-7)
    assert_close(cov, y.var() * (latent + NOISE * np.eye(7)), 1e-6)
    std = model.predict(X_star, return_std=True)[1]
    assert_close(std, np.sqrt(np.diag(cov)), 1e-9)
    assert model.kernel_.gamma_ == pytest.approx(GAMMA)
    flat = SPDGPRegressor(**given(kernel), n_jobs=2, random_state=0).fit(X.reshape(40, 9), y)
    assert_close(flat.predict(X_star.reshape(7, 9)), found, 1e-10)
    single = SPDGPRegressor(**given(kernel), random_state=0).fit(X.astype(np.float32), y)
    assert_close(single.predict(X_star.astype(np.float32)), found, 1e-4)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X_star), found)
    draws = model.sample_y(X_star, n_samples=5, random_state=0)
    assert draws.shape == (7, 5)


@each_kernel
def test_the_inverse_temperature_of_largest_likelihood_is_found(rng, kernel):
    X, y = matrices(rng, 60)
    model = SPDGPRegressor(kernel, random_state=0).fit(X, y)
    assert len(model.theta_) == 3
    learned = model.log_marginal_likelihood()
    for factor in (0.3, 0.6, 1.7, 3.0):
        gamma = max(0.5, factor * model.kernel_.gamma_)
        other = SPDGPRegressor(KINDS[kernel](gamma, "fixed"), random_state=0).fit(X, y)
        assert len(other.theta_) == 2
        assert learned > other.log_marginal_likelihood() - 0.05
    assert_slope(model, np.log([0.1, 0.7, 0.8]), 0.0, 1e-4)


def test_the_kernel_of_the_divergence_is_definite_at_every_inverse_temperature(rng):
    """Between the values that Sra's condition allows, too."""
    Q = np.linalg.qr(rng.standard_normal((200, 3, 3)))[0]
    X = (Q * np.exp(0.3 * rng.standard_normal((200, 1, 3)))) @ Q.transpose(0, 2, 1)
    X = (X + X.transpose(0, 2, 1)) / 2
    with pytest.warns(UserWarning, match="take 0.5 or 1"):
        jbld_kernel(X, gamma=0.75)
    for gamma in (0.5, 0.6, 0.75, 0.99, 1.0, 1.3):
        kernel = Divergence(gamma).taken(X)
        parts = kernel.parts(X, None, 1)
        assert np.linalg.eigvalsh(kernel.matrix(parts))[0] > -1e-12
        step = 1e-6
        above = Divergence(gamma * (1 + step)).taken(X).matrix(parts)
        slope = (above - kernel.matrix(parts)) / step
        np.testing.assert_allclose(kernel.derivative("gamma", parts), slope, atol=1e-5)
    kernel = Divergence(1.0).taken(X)
    np.testing.assert_allclose(kernel.matrix(kernel.parts(X, None, 1)), jbld_kernel(X, gamma=1.0))


def classes(rng, n, p=4, n_classes=3):
    y = rng.integers(0, n_classes, n)
    A = rng.standard_normal((n, p, 25))
    A[np.arange(n), y] *= 1.5
    return A @ A.transpose(0, 2, 1) / 25, np.array(["a", "b", "c"])[y]


@each_kernel
def test_classes_have_calibrated_probabilities(kernel):
    rng = np.random.default_rng(0)
    (X, y), (X_test, y_test) = classes(rng, 200), classes(rng, 600)
    model = SPDGPClassifier(kernel, random_state=0).fit(X, y)
    P = model.predict_proba(X_test)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X_test))
    assert model.score(X_test, y_test) > 0.75
    confidence = P.max(axis=1).mean()
    assert abs(confidence - model.score(X_test, y_test)) < 0.06
    assert log_loss(y_test, P) < 0.65


def level_of(model):
    """Return the variance of a level that is open, 0 where none is."""
    return model.kernel_.k2.value_ if isinstance(model.kernel_, WithLevel) else 0.0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_is_left_out_is_predicted_by_definition(rng, n_classes):
    X, y = classes(rng, 30, n_classes=n_classes)
    V = TangentSpace().fit_transform(X)
    model = SPDGPClassifier(Tangent(GAMMA, "fixed"), random_state=0).fit(X, y)
    K = np.exp(-GAMMA * cdist(V, V, "sqeuclidean"))
    targets = model.Y_fit_ - model.Y_fit_.mean(axis=0)
    found = left_out_scores(model)
    s = model.noise_ / model.amplitude_
    C, _ = leave_one_out.by_centring(K)
    assert_close(found, leave_one_out.refits(C + s * np.eye(30), targets)[0], 1e-7)
    # A level that is not open is left out with the row.
    model = SPDGPClassifier(**GIVEN, random_state=0).fit(X, y)
    found = left_out_scores(model)
    expected, _ = leave_one_out.refits(K + NOISE / AMPLITUDE * np.eye(30), targets)
    assert_close(found, expected, 1e-7)


def test_scores_of_weighted_rows_left_out(rng):
    X, y = classes(rng, 30)
    weights = rng.uniform(0.5, 1.5, 30)
    model = SPDGPClassifier(Tangent(GAMMA, "fixed"), random_state=0).fit(X, y, weights)
    V = TangentSpace().fit(X, sample_weight=weights).transform(X)
    w = weights / weights.mean()
    assert_close(model._posterior.system.row_scale, np.sqrt(w), 1e-12)
    C, _ = leave_one_out.by_centring(np.exp(-GAMMA * cdist(V, V, "sqeuclidean")), w)
    targets = model.Y_fit_ - np.average(model.Y_fit_, axis=0, weights=w)
    A = C + model.noise_ / model.amplitude_ * np.diag(1.0 / w)
    expected, _ = leave_one_out.refits(A, targets)
    assert_close(left_out_scores(model), expected, 1e-7)


@pytest.mark.parametrize(
    ("options", "learned_by"),
    [
        ({}, "leave_one_out_log_loss"),
        ({"kernel": "logeuclid"}, "leave_one_out_log_loss"),
        ({"kernel": "jbld"}, "log_marginal_likelihood"),
        ({"optimizer": LikelihoodSearch(shared=False)}, "log_marginal_likelihood"),
        ({"optimizer": LikelihoodSearch(shared=True)}, "log_marginal_likelihood"),
        ({"optimizer": "leave-one-out"}, "leave_one_out_log_loss"),
        ({"optimizer": "l-bfgs-b"}, "log_marginal_likelihood"),
        ({"optimizer": "nelder-mead"}, "log_marginal_likelihood"),
        ({"optimizer": None}, None),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_hyperparameters_of_classes_are_learned_as_documented(rng, options, learned_by):
    X, y = classes(rng, 24)
    model = SPDGPClassifier(random_state=0, **options).fit(X, y)
    history = getattr(model, "optimization_history_", {})
    assert [name for name in history if name.startswith("l")] == (
        [learned_by] if learned_by else []
    )
    by_rows_left_out = learned_by == "leave_one_out_log_loss"
    ratio = np.max(model.noise_ / np.asarray(model.amplitude_))
    # The level is open where rows were left out, and nowhere else.
    assert level_of(model) == pytest.approx(max(1.0, 30.0 * ratio) if by_rows_left_out else 0.0)


LITTLE_NOISE = {
    "kernel": Constant(1.0, (1.0, 2.0)) * Tangent(),
    "noise": 1e-3,
    "noise_bounds": (1e-3, 2e-3),
}


def test_little_noise_leaves_the_level_as_open_as_the_kernel_is_large(rng):
    X, y = classes(rng, 24)
    bounds = {"kernel": Constant(1.0, (1.0, 2.0)) * Tangent(), "noise_bounds": (1e-3, 2e-3)}
    model = SPDGPClassifier(noise=1e-3, random_state=0, **bounds).fit(X, y)
    assert level_of(model) == 1.0
    with pytest.raises(ValueError, match="outside noise_bounds"):
        SPDGPClassifier(noise=1.0, random_state=0, **bounds).fit(X, y)


@pytest.mark.parametrize("options", [{}, LITTLE_NOISE], ids=["much noise", "little noise"])
def test_where_matrices_say_nothing_classes_have_their_shares(rng, options):
    X, _ = classes(rng, 60)
    y = np.arange(60) % 6 == 0
    model = SPDGPClassifier(random_state=0, **options).fit(X, y)
    assert level_of(model) >= 1.0
    assert abs(model.predict_proba(classes(rng, 30)[0])[:, 1].mean() - 1 / 6) < 0.06


@pytest.mark.parametrize(
    ("options", "level_is_open"),
    [
        ({}, True),
        (LITTLE_NOISE, True),
        ({"optimizer": None}, False),
        ({"optimizer": None, "kernel": "jbld"}, False),
    ],
    ids=["much noise", "little noise", "given", "jbld"],
)
def test_offsets_are_expected_at_the_shares_where_the_level_is_open(rng, options, level_is_open):
    X, _ = classes(rng, 24)
    labels = (np.arange(24) % 6 == 0).astype(int)
    model = SPDGPClassifier(random_state=0, **options).fit(X, labels)
    scores = left_out_scores(model)
    if not level_is_open:
        expected = fit_calibration(scores, labels)
        assert_close(model.calibration_.offset, expected.offset, 1e-6)
        assert_close(model.calibration_.matrix, expected.matrix, 1e-6)
        return
    # Of one row in six; else they are expected at 0, where classes are equally likely.
    distance, without = (
        abs(c.offset[0] - np.log(1 / 5))
        for c in (model.calibration_, fit_calibration(scores, labels))
    )
    assert distance < without - 0.05


@pytest.mark.filterwarnings("error")
def test_where_nothing_is_left_to_learn_what_is_given_is_kept(rng):
    X, y = classes(rng, 24)
    model = SPDGPClassifier(random_state=0).fit(X, y)
    assert model.optimization_history_
    fixed = {"noise_bounds": "fixed", "kernel": Constant(1.0, "fixed") * Tangent(GAMMA, "fixed")}
    model.set_params(**fixed).fit(X, y)
    assert not hasattr(model, "optimization_history_")
    assert (model.noise_, model.amplitude_, level_of(model)) == (0.1, 1.0, 0.0)
    assert len(model.theta_) == 0


def test_one_class_says_nothing_of_noise(rng):
    X, _ = classes(rng, 24)
    with pytest.warns(UserWarning, match="y has one class"):
        model = SPDGPClassifier(random_state=0).partial_fit(X, np.full(24, "a"), classes=["a", "b"])
    assert (model.noise_, model.amplitude_) == (0.1, 1.0)
    assert np.all(model.predict(X) == "a")


def test_the_largest_noise_as_good_as_the_best_is_taken(rng):
    X, y = classes(rng, 60)
    model = SPDGPClassifier(random_state=0).fit(X, y)
    history = model.optimization_history_
    assert set(history) == {"leave_one_out_log_loss", "noise", "amplitude", "gamma"}
    assert {len(values) for values in history.values()} == {4 * 9}
    loss = history["leave_one_out_log_loss"]
    chosen = np.flatnonzero(
        (np.ravel(history["noise"]) == model.noise_)
        & np.isclose(history["gamma"], model.kernel_.k1.gamma_)
    )
    assert len(chosen) == 1
    assert loss.min() <= loss[chosen[0]] < loss.min() + 0.1
    # Of the same kernel coefficient, as much noise and less were tried.
    same = history["gamma"] == history["gamma"][chosen[0]]
    ratio = np.ravel(history["noise"] / history["amplitude"])
    assert ratio[chosen[0]] >= ratio[same][np.argmin(loss[same])]
    learned = [model.noise_, model.amplitude_, model.kernel_.k1.gamma_]
    assert_close(np.exp(model.theta_), learned, 1e-12)
    # The level of the targets is left open.
    assert level_of(model) >= 30 * model.noise_ / model.amplitude_ * (1 - 1e-12)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_bounds_and_given_values_are_kept_when_rows_are_left_out(rng):
    X, y = classes(rng, 40)
    kernel = Tangent(0.2, "fixed")
    fixed = SPDGPClassifier(kernel, noise=0.3, noise_bounds="fixed", random_state=0).fit(X, y)
    assert (fixed.noise_, len(fixed.theta_)) == (0.3, 1)
    assert fixed.kernel_.k1.gamma_ == 0.2
    both = SPDGPClassifier(
        Constant(0.7, "fixed") * kernel, noise=0.3, noise_bounds="fixed", random_state=0
    ).fit(X, y)
    assert (both.noise_, both.amplitude_, len(both.theta_)) == (0.3, 0.7, 0)
    narrow = SPDGPClassifier(
        Constant(1.0, (1.0, 2.0)) * Tangent(), noise_bounds=(0.05, 0.1), random_state=0
    ).fit(X, y)
    assert 0.05 <= narrow.noise_ <= 0.1
    assert 1.0 <= narrow.amplitude_ <= 2.0
    with pytest.raises(ValueError, match="leave-one-out"):
        SPDGPClassifier("jbld", optimizer="leave-one-out", random_state=0).fit(X, y)
    own = SPDGPClassifier(optimizer=LikelihoodSearch(shared=False), random_state=0).fit(X, y)
    assert own.noise_.shape == (3,)


def test_few_trials_in_many_dimensions_are_predicted_as_well_as_by_means():
    """The largest likelihood explains every label, and knows little of other trials."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((14, 14))

    def trials(n):
        y = np.arange(n) % 3
        sources = rng.standard_normal((n, 14, 60)) * np.exp(0.3 * rng.standard_normal((n, 14, 1)))
        sources[np.arange(n), y] *= 1.5
        C = A @ sources
        return C @ C.transpose(0, 2, 1) / 60, y

    (X, y), (X_test, y_test) = trials(60), trials(400)
    loss = {
        name: log_loss(y_test, model.fit(X, y).predict_proba(X_test))
        for name, model in {
            "left out": SPDGPClassifier(random_state=0),
            "likelihood": SPDGPClassifier(optimizer="l-bfgs-b", random_state=0),
            "means": MDM(),
        }.items()
    }
    assert loss["left out"] < loss["likelihood"] - 0.01
    assert loss["left out"] < loss["means"] + 0.05


@pytest.mark.parametrize("n_each", [2, 3, 5])
def test_a_handful_of_trials_does_not_make_certain(n_each):
    """Two classes that differ a little: hardly worse than a coin, on average."""
    losses = []
    for seed in range(48):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((4, 4))
        y = np.arange(2 * (n_each + 60)) % 2
        sources = rng.standard_normal((len(y), 4, 40))
        sources[np.arange(len(y)), y] *= 1.25
        C = A @ sources
        C = C @ C.transpose(0, 2, 1) / 40
        n = 2 * n_each
        model = SPDGPClassifier(random_state=0).fit(C[:n], y[:n])
        losses.append(log_loss(y[n:], model.predict_proba(C[n:])))
    assert np.mean(losses) < np.log(2) + 0.02


def test_the_likelihood_of_classes_is_of_targets_less_their_mean(rng):
    X, y = classes(rng, 30)
    model = SPDGPClassifier(**given("logeuclid"), random_state=0).fit(X, y)
    K = AMPLITUDE * log_euclidean_kernel(X, gamma=GAMMA) + NOISE * np.eye(30)
    Y = model.Y_fit_ - model.Y_fit_.mean(axis=0)
    expected = multivariate_normal(np.zeros(30), K).logpdf(Y.T).sum()
    assert model.log_marginal_likelihood() == pytest.approx(expected)


@pytest.mark.parametrize("model_class", [SPDGPRegressor, SPDGPClassifier])
def test_rows_are_matrices(rng, model_class):
    assert get_tags(model_class()).input_tags.three_d_array
    X, y = classes(rng, 20, p=4)
    y = (y == "a").astype(int)
    model = model_class(**of_terms(**GIVEN)).fit(X, y)
    with pytest.raises(ValueError, match="single matrix"):
        model.partial_fit(X[0], y[:4])
    for call in (model.fit, model.partial_fit, lambda Z, _: model.predict(Z)):
        with pytest.raises(TypeError, match=r"dense data is required: X\.toarray\(\)"):
            call(sparse.csr_array(X.reshape(20, 16)), y)
    # As many flat rows as the matrices before had are no single one of those.
    large = matrices(rng, 20, 9)[0]
    flat = matrices(rng, 9)[0].reshape(9, 9)
    again = model.fit(large, y).fit(flat, y[:9])
    assert again.n_features_in_ == 9


def test_units_and_bases_do_not_matter_in_the_tangent_space(rng):
    (X, y), (X_star, _) = matrices(rng, 40), matrices(rng, 7)
    A = rng.standard_normal((3, 3))
    model = SPDGPRegressor(**GIVEN, random_state=0).fit(X, y)
    moved = SPDGPRegressor(**GIVEN, random_state=0).fit(A @ X @ A.T, y)
    assert_close(moved.predict(A @ X_star @ A.T), model.predict(X_star), 1e-6)
    learned = SPDGPRegressor(random_state=0).fit(X, y).predict(X_star)
    assert_close(
        SPDGPRegressor(random_state=0).fit(1e12 * X, y).predict(1e12 * X_star), learned, 1e-5
    )


@each_kernel
@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_what_is_given_for_a_kernel_coefficient_that_is_not_learned(rng, kernel, spread):
    X, y = matrices(rng, 20)
    X = (1.0 - spread) * np.eye(3) + spread * X
    model = SPDGPRegressor(kernel, optimizer=None).fit(X, y)
    if kernel == "jbld":
        assert model.kernel_.gamma_ == 0.5
        return
    M = airm_mean(X) if kernel == "tangent" else np.eye(3)
    V = np.array([oracle.tangent_vector(x, M) for x in X])
    # Mean squared distance of all pairs.
    assert model.kernel_.distance_scale_ == pytest.approx(cdist(V, V, "sqeuclidean").mean())
    assert model.kernel_.gamma_ == pytest.approx(1.0 / model.kernel_.distance_scale_)


def test_the_kernel_of_the_divergence_of_numbers_is_definite_below_one_half(rng):
    X, y = rng.uniform(0.5, 2.0, size=(20, 1, 1)), rng.normal(size=20)
    model = SPDGPRegressor(**given("jbld", 0.3)).fit(X, y)
    D = oracle.all_pairs(oracle.jbld, X, X)
    K = AMPLITUDE * np.exp(-0.3 * D)
    expected = y.mean() + K @ np.linalg.solve(K + NOISE * np.eye(20), y - y.mean())
    assert_close(model.predict(X), expected, 1e-8)


def test_what_is_refused(rng):
    X, y = matrices(rng, 20)
    for rows in (X, matrices(rng, 20, 2)[0]):
        with pytest.raises(ValueError, match=r"gamma = 0.3: .* not positive definite below 1/2"):
            SPDGPRegressor(Divergence(0.3), random_state=0).fit(rows, y)


def test_equal_matrices_and_one_row(rng):
    X, y = matrices(rng, 20)
    model = SPDGPRegressor(**GIVEN, random_state=0).fit(np.broadcast_to(X[:1], X.shape), y)
    assert_close(model.predict(X[:1]), [y.mean()], 1e-6)
    assert model.kernel_.gamma_ == GAMMA
    learned = SPDGPRegressor(optimizer=None).fit(np.broadcast_to(X[:1], X.shape), y)
    # Of no distance there is no unit.
    assert learned.kernel_.gamma_ == learned.kernel_.distance_scale_ == 1.0


@each_kernel
def test_one_matrix_is_enough(rng, kernel):
    X = matrices(rng, 3)[0]
    model = SPDGPRegressor(AMPLITUDE * KINDS[kernel](), **FIXED)
    found, std = model.fit(X[:1], [4.0]).predict(X, return_std=True)
    assert_close(found, np.full(3, 4.0), 1e-12)
    K = AMPLITUDE * covariance(kernel, X, X[:1], model.kernel_.gamma_, X[0])[:, 0]
    expected = np.sqrt(AMPLITUDE + NOISE - K**2 / (AMPLITUDE + NOISE))
    assert_close(std / model.y_std_, expected, 1e-9)
