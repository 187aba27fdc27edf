"""Parameters of metrics, and metrics of one's own, wherever a metric is named."""

import numpy as np
import pytest

from histrs.kernel_approximation import SparseAdditiveMap, SparseKernelMap
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import CondensedNN, RandomSubset
from histrs.quantization import ProductQuantizer
from histrs.spd import MDM


def test_parameters_of_a_metric_are_named():
    X, y = np.random.default_rng(0).random((20, 4)), np.arange(20) % 2
    for make in (MetricKNNClassifier, CondensedNN):
        with pytest.raises(ValueError, match="metric_params has 'gama', which 'exp_chi2' does not"):
            make(metric="exp_chi2", metric_params={"gama": 2.0}).fit(X, y).predict(X)
        with pytest.raises(ValueError, match=r"^Give either M, .* in metric_params"):
            make(metric="emd").fit(X, y).predict(X)
    with pytest.raises(ValueError, match="kernel_params has 'gama', which 'exp_chi2' does not"):
        SparseKernelMap(kernel="exp_chi2", kernel_params={"gama": 2.0}).fit(X)
    one = SparseKernelMap(kernel="exp_chi2", kernel_params={"n_jobs": 1}, random_state=0).fit(X)
    both = SparseKernelMap(kernel="exp_chi2", random_state=0).fit(X)
    assert (one.transform(X) != both.transform(X)).sum() == 0


@pytest.mark.parametrize("make", [MetricKNNClassifier, CondensedNN, RandomSubset])
def test_what_a_callable_returns_is_checked(make):
    X, y = np.random.default_rng(0).random((20, 4)), np.arange(20) % 2

    def as_lists(A, B, n_jobs=None):
        return np.abs(A[:, None] - B).sum(axis=2).tolist()

    def as_array(A, B, n_jobs=None):
        return np.abs(A[:, None] - B).sum(axis=2)

    given = {"random_state": 0} if make is not MetricKNNClassifier else {}
    answers = [make(metric=m, **given).fit(X, y).predict(X) for m in (as_lists, as_array)]
    np.testing.assert_array_equal(*answers)
    with pytest.raises(ValueError, match="metric returned distances of shape"):
        make(metric=lambda A, B, n_jobs=None: np.zeros((3, 3)), **given).fit(X, y).predict(X)


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (MetricKNNClassifier, "metric"),
        (CondensedNN, "metric"),
        (SparseKernelMap, "kernel"),
        (SparseAdditiveMap, "kernel"),
        (ProductQuantizer, "metric"),
        (MDM, "metric"),
    ],
)
def test_errors_of_wrong_names_list_the_names_in_order(make, parameter):
    X, y = np.random.default_rng(0).random((20, 4)), np.arange(20) % 2
    with pytest.raises(ValueError, match="Got 'unknown'") as caught:
        make(**{parameter: "unknown"}).fit(X, y)
    names = str(caught.value).split("{")[1].split("}")[0].split(", ")
    assert len(names) > 1
    assert names == sorted(names)


@pytest.mark.parametrize("metric", ["airm", "jbld"])
def test_distances_to_neighbours_are_never_left_out(metric):
    A = np.random.default_rng(0).normal(size=(20, 3, 8))
    X, y = A @ A.transpose(0, 2, 1), np.arange(20) % 2
    model = MetricKNNClassifier(metric=metric, metric_params={"on_error": "nan"})
    with pytest.raises(ValueError, match=r"'on_error', which '.*' does not take: it takes n_jobs"):
        model.fit(X, y).predict(X)
