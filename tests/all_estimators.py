"""Every public estimator, with parameters that make it quick and data of the kind that it takes."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_regressor

import histrs
from histrs.cluster import KMedoids, MetricKMeans
from histrs.descriptors import BagOfVisualWords, FisherVector
from histrs.detection import HOGFeatures, PartDetector
from histrs.feature_selection import SelectRelevant
from histrs.gaussian_process import (
    GPClassifier,
    GPRegressor,
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPClassifier,
    MinMaxGPRegressor,
    SPDGPClassifier,
    SPDGPRegressor,
    TabularGPClassifier,
    TabularGPRegressor,
)
from histrs.kernel_approximation import (
    AdditiveChi2Map,
    ExpChi2Sampler,
    KernelProjectionMap,
    SlicedDistanceMap,
    SparseAdditiveMap,
    SparseKernelMap,
)
from histrs.neighbors import MetricKNNClassifier, MetricKNNRegressor
from histrs.prototypes import (
    CondensedNN,
    CovarianceCompressor,
    FastCondensedNN,
    HistogramCompressor,
    RandomMutationNN,
    RandomSubset,
    ReducedNN,
)
from histrs.quantization import CodeNeighbors, ProductQuantizer
from histrs.spd import (
    CSP,
    MDM,
    CommonRange,
    Covariances,
    Potato,
    SPDProjection,
    TangentSpace,
    Whitening,
)
from histrs.streaming import (
    MomentGroupLasso,
    MomentLasso,
    MomentLassoCV,
    PCARidge,
    PCARidgeClassifier,
    StreamingPCA,
)
from histrs.svm import BundleSVC, IntersectionSVC
from histrs.transport import TransportMap

ROWS, COVARIANCES, SIGNALS, IMAGES, LOCAL_FEATURES = (
    "rows",
    "covariances",
    "signals",
    "images",
    "local features",
)


class Case(NamedTuple):
    """How an estimator is tried."""

    make: Callable[[], Any]
    takes: str = ROWS


CASES = [
    Case(lambda: IntersectionGPClassifier(random_state=0)),
    Case(lambda: IntersectionGPRegressor(random_state=0)),
    Case(lambda: GPClassifier(noise=0.3, noise_bounds="fixed", random_state=0)),
    Case(lambda: GPRegressor(noise=0.3, noise_bounds="fixed", random_state=0)),
    Case(lambda: MinMaxGPClassifier(random_state=0)),
    Case(lambda: MinMaxGPRegressor(random_state=0)),
    Case(lambda: TabularGPClassifier(random_state=0)),
    Case(lambda: TabularGPRegressor(random_state=0)),
    Case(lambda: SPDGPClassifier(random_state=0), COVARIANCES),
    Case(lambda: SPDGPRegressor(random_state=0), COVARIANCES),
    Case(lambda: IntersectionSVC(probability=True, random_state=0)),
    Case(lambda: BundleSVC(alpha=0.01, loss="logistic", random_state=0)),
    Case(lambda: PCARidge()),
    Case(lambda: PCARidgeClassifier()),
    Case(lambda: MomentLasso(0.01)),
    Case(lambda: MomentLassoCV(alphas=5, cv=3)),
    Case(lambda: MomentGroupLasso(alpha=0.01)),
    Case(lambda: StreamingPCA(2)),
    Case(lambda: SelectRelevant(1.0, n_sweeps=20, random_state=0)),
    Case(lambda: AdditiveChi2Map(3)),
    Case(lambda: ExpChi2Sampler(8, random_state=0)),
    Case(lambda: KernelProjectionMap(n_landmarks=5, random_state=0)),
    Case(lambda: SlicedDistanceMap(5, random_state=0)),
    Case(lambda: SparseAdditiveMap(n_knots=5)),
    Case(lambda: SparseKernelMap(n_landmarks=5, random_state=0)),
    Case(lambda: ProductQuantizer(2, 4, random_state=0)),
    Case(lambda: CodeNeighbors(ProductQuantizer(2, 4, random_state=0), 3)),
    Case(lambda: MetricKNNClassifier(3, metric="chi2")),
    Case(lambda: MetricKNNRegressor(3, metric="chi2")),
    Case(lambda: MetricKMeans(3, metric="chi2", random_state=0)),
    Case(lambda: KMedoids(3, metric="chi2", random_state=0)),
    Case(lambda: CondensedNN(metric="chi2", random_state=0)),
    Case(lambda: FastCondensedNN(metric="chi2")),
    Case(lambda: ReducedNN(metric="chi2", random_state=0)),
    Case(lambda: RandomSubset(0.3, metric="chi2", random_state=0)),
    Case(lambda: RandomMutationNN(0.3, metric="chi2", max_iter=10, random_state=0)),
    Case(lambda: HistogramCompressor(0.2, tol=0.1, max_iter=3, random_state=0)),
    Case(lambda: CovarianceCompressor(0.2, tol=0.1, max_iter=3, random_state=0), COVARIANCES),
    Case(lambda: TransportMap(0.1)),
    Case(lambda: MDM(), COVARIANCES),
    Case(lambda: TangentSpace(), COVARIANCES),
    Case(lambda: Whitening(), COVARIANCES),
    Case(lambda: CommonRange(), COVARIANCES),
    Case(lambda: CSP(2), COVARIANCES),
    Case(lambda: Potato(), COVARIANCES),
    Case(lambda: SPDProjection(2), COVARIANCES),
    Case(lambda: Covariances(), SIGNALS),
    Case(lambda: BagOfVisualWords(3, random_state=0), LOCAL_FEATURES),
    Case(lambda: FisherVector(2, random_state=0), LOCAL_FEATURES),
    Case(lambda: HOGFeatures(), IMAGES),
    Case(lambda: PartDetector(n_parts=2, random_state=0), IMAGES),
]


def public_estimators() -> set[type]:
    """Return every class of a public module that is an estimator."""
    found: set[type] = set()
    for info in pkgutil.iter_modules(histrs.__path__, "histrs."):
        if info.name.rpartition(".")[2].startswith("_"):
            continue
        module = importlib.import_module(info.name)
        public = [getattr(module, name) for name in getattr(module, "__all__", [])]
        found |= {o for o in public if inspect.isclass(o) and issubclass(o, BaseEstimator)}
    return found


def data(case: Case, n: int = 45, n_classes: int = 3, seed: int = 0) -> tuple[Any, Any]:
    """Return samples of the kind that a case takes, and targets that they tell something about."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    if case.takes == ROWS:
        X: Any = rng.random((n, 4)) + 0.05
        X[np.arange(n), labels] += 1.0
    elif case.takes in (COVARIANCES, SIGNALS):
        X = rng.standard_normal((n, 3, 20))
        X[np.arange(n), labels % 3] *= 3.0
        if case.takes == COVARIANCES:
            X = X @ X.transpose(0, 2, 1) / 20
    elif case.takes == LOCAL_FEATURES:
        X = [rng.random((12, 3)) + label for label in labels]
    else:
        X = [rng.random((32, 32)) for _ in labels[:3]]
    estimator = case.make()
    if isinstance(estimator, PartDetector):
        return X, [[[0, 0, 16, 16]] for _ in X]
    if isinstance(estimator, TransportMap):
        return X, 2.0 * X[::-1]
    if is_regressor(estimator):
        return X, labels + 0.1 * rng.standard_normal(n)
    return X, labels if estimator.__sklearn_tags__().target_tags.required else None
