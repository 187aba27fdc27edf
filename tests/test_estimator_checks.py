"""The estimators keep scikit-learn's contract."""

import numpy as np
import pytest
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.estimator_checks import parametrize_with_checks

from histrs.cluster import KMedoids, MetricKMeans
from histrs.descriptors import BagOfVisualWords, FisherVector
from histrs.feature_selection import SelectRelevant
from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPClassifier,
    MinMaxGPRegressor,
    Solver,
    SPDGPClassifier,
    SPDGPRegressor,
    TabularGPClassifier,
    TabularGPRegressor,
    _doors,
)
from histrs.gaussian_process.kernels import Interactions, Intersection, Splines
from histrs.kernel_approximation import (
    AdditiveChi2Map,
    ExpChi2Sampler,
    KernelProjectionMap,
    SlicedDistanceMap,
    SparseAdditiveMap,
    SparseKernelMap,
)
from histrs.neighbors import MetricKNNClassifier, MetricKNNRegressor, _space
from histrs.prototypes import (
    CondensedNN,
    CovarianceCompressor,
    FastCondensedNN,
    HistogramCompressor,
    RandomMutationNN,
    RandomSubset,
    ReducedNN,
    _covariance,
)
from histrs.prototypes._base import SelectedPrototypes
from histrs.quantization import CodeNeighbors, ProductQuantizer
from histrs.spd import CSP, MDM, CommonRange, Potato, SPDProjection, TangentSpace, Whitening, _base
from histrs.streaming import (
    MomentGroupLasso,
    MomentLasso,
    MomentLassoCV,
    PCARidge,
    PCARidgeClassifier,
    StreamingPCA,
)
from histrs.svm import BundleSVC, IntersectionSVC

ESTIMATORS = [
    AdditiveChi2Map(),
    AdditiveChi2Map(method="periodic", per_column=True),
    AdditiveChi2Map(method="power"),
    AdditiveChi2Map(per_column=True),
    ExpChi2Sampler(),
    ExpChi2Sampler(projection="orthogonal", gamma="median"),
    IntersectionGPClassifier(random_state=0),
    IntersectionGPClassifier(random_state=0, solver=Solver("cg", preconditioner="knots")),
    IntersectionGPRegressor(random_state=0),
    IntersectionGPRegressor(Splines(rough_weight=1.0), random_state=0),
    IntersectionGPRegressor(
        n_bins=20, random_state=0, solver=Solver("cg", preconditioner="pivoted-cholesky")
    ),
    IntersectionGPClassifier(Intersection() + Interactions(2), random_state=0),
    IntersectionGPRegressor(Intersection() + Interactions(2, n_knots=4), random_state=0),
    MinMaxGPClassifier(random_state=0),
    MinMaxGPRegressor(random_state=0),
    HistogramCompressor(0.2, tol=0.05, random_state=0),
    IntersectionSVC(max_iter=20),
    BundleSVC(SparseAdditiveMap(n_knots=5), alpha=0.01),
    KernelProjectionMap(n_landmarks=5, random_state=0),
    KernelProjectionMap("exp_chi2", 5, landmarks="sample", whiten=True, random_state=0),
    ProductQuantizer(1, 3, "chi2"),
    ProductQuantizer(1, 3, "intersection", algorithm="minibatch"),
    SparseAdditiveMap(),
    SparseAdditiveMap("chi2", spacing="quantile"),
    SparseAdditiveMap("jensen_shannon", 1, spacing="log"),
    SparseKernelMap(n_landmarks=5, random_state=0),
    SparseKernelMap("chi2", 5, 2, selection="orthogonal-matching-pursuit", random_state=0),
]
# The checks fit points: of the metrics they take this one.
POINT_ESTIMATORS = [
    BagOfVisualWords(3, random_state=0),
    BagOfVisualWords(2, assignment="soft", norm="l2", random_state=0),
    FisherVector(2, random_state=0),
    BundleSVC(alpha=0.01),
    BundleSVC(alpha=0.01, loss="logistic"),
    BundleSVC(ProductQuantizer(1, 4, random_state=0), alpha=0.01),
    CodeNeighbors(ProductQuantizer(1, 3, random_state=0), 1),
    CondensedNN(metric="euclidean", random_state=0),
    FastCondensedNN(metric="euclidean"),
    KMedoids(metric="euclidean", random_state=0),
    MetricKMeans(metric="euclidean", random_state=0),
    MetricKNNClassifier(3, metric="euclidean"),
    MetricKNNClassifier("auto", metric="euclidean", weights="auto"),
    MetricKNNRegressor("auto", metric="euclidean", weights="auto"),
    MomentGroupLasso(alpha=0.1),
    MomentLasso(0.1),
    MomentLasso(0.1, positive=True),
    MomentLassoCV(alphas=10, cv=2),
    MomentLasso(0.1, l1_ratio=0.5, fit_intercept=False),
    PCARidge(),
    PCARidge(selection="loo"),
    PCARidgeClassifier(),
    PCARidgeClassifier(selection="loo"),
    ProductQuantizer(1, 3),
    ProductQuantizer(1, 3, rotation="opq", n_levels=2, random_state=0),
    RandomMutationNN(0.2, metric="euclidean", max_iter=50, random_state=0),
    RandomSubset(0.2, metric="euclidean", random_state=0),
    ReducedNN(metric="euclidean", random_state=0),
    SlicedDistanceMap(5, random_state=0),
    SlicedDistanceMap(5, directions="structured", columns_weight=2.0, random_state=0),
    TabularGPClassifier(random_state=0),
    TabularGPRegressor(random_state=0),
    TabularGPRegressor(members=["ranks"], target_transform="yeo-johnson", random_state=0),
    SelectRelevant(1.0, n_sweeps=20, random_state=0),
    StreamingPCA(),
    StreamingPCA(1),
]


def first_and_others(estimators):
    """Return the first estimator of each class, and those of other parameters."""
    first = list({type(one): one for one in reversed(estimators)}.values())[::-1]
    return first, [one for one in estimators if not any(one is other for other in first)]


FIRST, OTHERS = first_and_others(ESTIMATORS + POINT_ESTIMATORS)


COVARIANCE_ESTIMATORS = [
    CondensedNN(metric="jbld", random_state=0),
    CovarianceCompressor(0.2, tol=0.05, random_state=0),
    FastCondensedNN(metric="jbld"),
    KMedoids(metric="airm", random_state=0),
    MetricKMeans(metric="airm", random_state=0),
    MetricKNNClassifier(metric="jbld"),
    MetricKNNClassifier(3, metric="airm"),
    RandomMutationNN(0.2, metric="jbld", max_iter=50, random_state=0),
    RandomSubset(0.2, metric="jbld", random_state=0),
    ReducedNN(metric="jbld", random_state=0),
    SPDProjection(1),
    CommonRange(),
    CSP(),
    TangentSpace(),
    TangentSpace("jbld"),
    Whitening(),
    Potato(),
    MDM(),
    MDM("jbld"),
    MDM("logeuclid"),
    SPDGPClassifier(random_state=0),
    SPDGPRegressor("jbld", random_state=0),
]


def expected_failed_checks(estimator):
    negative = "fits negative data, although the tags ask for positive data only"
    if isinstance(estimator, (IntersectionGPClassifier, MinMaxGPClassifier)):
        return {
            "check_class_weight_classifiers": negative,
            "check_decision_proba_consistency": (
                "fits blobs around the origin, although the tags ask for positive data only; "
                "and the probability of a class depends on the variance of a row as well, so "
                "that rows are not in the order of their scores"
            ),
        }
    if isinstance(estimator, IntersectionSVC):
        repeats = (
            "a row of weight 2 makes one step of twice the length, a repeated row two steps that "
            "come at different times; rows of weight 0 are left out, which test_svm.py tests"
        )
        return {
            "check_sample_weight_equivalence_on_dense_data": repeats,
            "check_sample_weight_equivalence_on_sparse_data": repeats,
            "check_sparsify_coefficients": negative,
            "check_class_weight_classifiers": negative,
        }
    if isinstance(estimator, BundleSVC):
        if isinstance(estimator.feature_map, SparseAdditiveMap):
            return {"check_class_weight_classifiers": negative}
        return {}
    if isinstance(estimator, SelectedPrototypes):
        repeats = (
            "of a repeated row the copies that are no prototypes count, of a weighted one none, "
            "and orders of more rows are drawn; tests/contract.py tries weights of 0"
        )
        only_chosen = (
            "expects the heavy class nearly everywhere, but weights decide which samples become "
            "prototypes, and the nearest of these the class"
        )
        expected = {
            "check_sample_weight_equivalence_on_dense_data": repeats,
            "check_sample_weight_equivalence_on_sparse_data": repeats,
        }
        if hasattr(estimator, "class_weight"):
            expected["check_class_weight_classifiers"] = only_chosen
        return expected
    if isinstance(estimator, (MetricKNNClassifier, MetricKNNRegressor)):
        counts = (
            "a sample of weight 2 is one neighbour with two votes, and a repeated one two; those "
            "of weight 0 are left out, which tests/contract.py tries"
        )
        votes = (
            "expects the heavy class nearly everywhere, but weights are those of the votes of a "
            "few neighbours, all of which may be of the other class"
        )
        expected = {}
        if estimator.n_neighbors != 1:
            expected["check_sample_weight_equivalence_on_dense_data"] = counts
            expected["check_sample_weight_equivalence_on_sparse_data"] = counts
        if isinstance(estimator, MetricKNNClassifier) and estimator.n_neighbors != "auto":
            expected["check_class_weight_classifiers"] = votes
        return expected
    if isinstance(estimator, MomentLassoCV):
        folds = "gives folds as indices of rows; here they are a number, or moments of each"
        return {
            "check_sample_weight_equivalence_on_dense_data": folds,
            "check_sample_weight_equivalence_on_sparse_data": folds,
        }
    if isinstance(estimator, StreamingPCA) and estimator.n_components is None:
        no_variance = (
            "fits fewer rows than columns, so that directions without variance are drawn by "
            "rounding; test_streaming_weights.py compares those with variance"
        )
        return {
            "check_sample_weight_equivalence_on_dense_data": no_variance,
            "check_sample_weight_equivalence_on_sparse_data": no_variance,
        }
    if isinstance(estimator, (CovarianceCompressor, HistogramCompressor)):
        own_places = (
            "expects the heavy class nearly everywhere, but the light one keeps its prototypes, "
            "which no heavy sample has a reason to move, where its samples are"
        )
        if isinstance(estimator, CovarianceCompressor):
            return {"check_class_weight_classifiers": own_places}
        empty = "fits rows of zeros, of which there is no transport: they are refused by name"
        ratio = (
            "three blobs, two features: a histogram of two bins keeps their ratio alone, which "
            "does not tell the classes apart"
        )
        of_empty = [
            "check_estimators_dtypes",
            "check_estimator_sparse_tag",
            "check_estimator_sparse_array",
            "check_estimator_sparse_matrix",
            "check_fit2d_1feature",
            "check_sample_weights_pandas_series",
            "check_sample_weights_not_an_array",
        ]
        return {
            "check_classifiers_train": ratio,
            "check_classifiers_train(readonly_memmap=True)": ratio,
            "check_classifiers_train(readonly_memmap=True,X_dtype=float32)": ratio,
            "check_decision_proba_consistency": negative,
            "check_class_weight_classifiers": negative,
            **dict.fromkeys(of_empty, empty),
        }
    return {}


# The check of partial_fit fits blobs without noise.
@pytest.mark.filterwarnings(
    "ignore:.*noise at its lower bound:sklearn.exceptions.ConvergenceWarning"
)
@parametrize_with_checks(FIRST, expected_failed_checks=expected_failed_checks)
def test_scikit_learn_estimator_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*noise at its lower bound:sklearn.exceptions.ConvergenceWarning"
)
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn_estimator_contract_of_other_parameters(estimator, check):
    check(estimator)


def covariances_of_points(X):
    """A matrix for each point, which says where it is: I + (x, 1) (x, 1)^T."""
    X = np.column_stack([X, np.ones(len(X), X.dtype)])
    return X[:, :, None] * X[:, None] + np.eye(X.shape[1], dtype=X.dtype)


@parametrize_with_checks(COVARIANCE_ESTIMATORS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn_estimator_contract_of_covariances(estimator, check, monkeypatch):
    """The checks fit points, so covariances are made of them where rows become matrices."""
    for module in (_doors, _covariance, _base, _space):
        monkeypatch.setattr(module, "stacked", covariances_of_points)
    check(estimator)


def test_probabilities_of_a_row_are_in_the_order_of_its_scores():
    """What the check expected to fail is about, as far as it holds for this model."""
    rng = np.random.default_rng(0)
    X, y = rng.random((100, 2)), rng.integers(0, 3, size=100)
    for classes in (2, 3):
        model = IntersectionGPClassifier(random_state=0).fit(X, y % classes)
        scores = model.decision_function(X)
        scores = np.column_stack([-scores, scores]) if classes == 2 else scores
        order = np.argsort(model.predict_proba(X), axis=1)
        np.testing.assert_array_equal(order, np.argsort(scores, axis=1))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_tags(estimator):
    tags = estimator.__sklearn_tags__()
    assert tags.input_tags.sparse
    assert tags.input_tags.positive_only
    assert not tags.input_tags.allow_nan
    assert tags.target_tags.required == isinstance(estimator, (ClassifierMixin, RegressorMixin))
    assert not tags.non_deterministic
