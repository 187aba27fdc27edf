"""What was fitted answers, and its certificates are of it, whatever is set later."""

import numpy as np
import pytest
from sklearn.base import clone

from histrs.kernel_approximation import (
    AdditiveChi2Map,
    ExpChi2Sampler,
    KernelProjectionMap,
    SparseAdditiveMap,
    SparseKernelMap,
)
from histrs.quantization import ProductQuantizer
from tests.helpers import dense

CHANGES = [
    (AdditiveChi2Map(9), {"n_components": 3}),
    (AdditiveChi2Map(9, method="chebyshev"), {"n_components": 3, "per_column": True}),
    (AdditiveChi2Map(9, method="periodic"), {"method": "rational", "n_components": 2}),
    (AdditiveChi2Map(3, per_column=True), {"per_column": False, "method": "chebyshev"}),
    (ExpChi2Sampler(30, random_state=0), {"n_components": 21, "projection": "gaussian"}),
    (ExpChi2Sampler(30, projection="gaussian", random_state=0), {"projection": "structured"}),
    (SparseAdditiveMap("intersection", n_knots=5), {"kernel": "hellinger", "n_knots": 3}),
    (SparseKernelMap("chi2", 5, random_state=0), {"kernel": "intersection"}),
    (KernelProjectionMap("chi2", 5, random_state=0), {"kernel": "intersection", "whiten": True}),
    (KernelProjectionMap("exp_chi2", 5, whiten=True, random_state=0), {"whiten": False}),
    (
        KernelProjectionMap("exp_chi2", 5, kernel_params={"gamma": 1.0}, random_state=0),
        {"kernel_params": {"gamma": 9.0}},
    ),
    (ProductQuantizer(2, 8, "chi2", random_state=0), {"metric": "euclidean", "n_codes": 3}),
    (ProductQuantizer(2, 8, "intersection", random_state=0), {"metric": "hellinger"}),
]


@pytest.mark.parametrize(("fitted", "change"), CHANGES)
def test_parameters_set_later_wait_for_the_next_fit(rng, fitted, change):
    X = rng.random((50, 6))
    fitted = clone(fitted).fit(X)
    features = dense(fitted.transform(X))
    names = fitted.get_feature_names_out().tolist()
    product = getattr(fitted, "inner_product_", None)
    V = rng.random((product.shape[0], 2)) if product is not None else None
    certified = {name: value for name, value in vars(fitted).items() if "bound" in name}
    fitted.set_params(**change)
    np.testing.assert_array_equal(dense(fitted.transform(X)), features)
    assert fitted.get_feature_names_out().tolist() == names
    if product is not None:
        np.testing.assert_array_equal(fitted.inner_product_.matmul(V), product.matmul(V))
    for name, value in certified.items():
        np.testing.assert_array_equal(getattr(fitted, name), value)
    again = clone(fitted).fit(X)
    refitted = fitted.fit(X)
    np.testing.assert_array_equal(dense(refitted.transform(X)), dense(again.transform(X)))


def test_a_quantizer_is_saved_as_it_was_fitted(rng, tmp_path):
    X = rng.random((50, 6))
    fitted = ProductQuantizer(2, 8, "chi2", random_state=0).fit(X)
    codes = fitted.transform(X)
    fitted.set_params(metric="euclidean").save(tmp_path / "pq")
    loaded = ProductQuantizer.load(tmp_path / "pq")
    assert loaded.metric_ == "chi2"
    assert loaded.metric == "euclidean"
    np.testing.assert_array_equal(loaded.transform(X), codes)
