"""Feature maps against their definitions, their bounds and scikit-learn."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import AdditiveChi2Sampler

from histrs.kernel_approximation import (
    AdditiveChi2Map,
    ExpChi2Sampler,
    KernelProjectionMap,
    SlicedDistanceMap,
    SparseAdditiveMap,
    SparseKernelMap,
    _scale_search,
)
from histrs.metrics import additive_chi2_kernel, chi2_distances, exp_chi2_kernel
from histrs.quantization import ProductQuantizer
from histrs.testing import histograms
from tests.helpers import CONTAINERS, awkward_histograms, dense
from tests.oracles import chi2 as oracle

pytestmark = pytest.mark.simd_paths

METHODS = ["rational", "chebyshev", "periodic", "power"]
every_method = pytest.mark.parametrize("method", METHODS)
PRECISION = {np.dtype(np.float32): 3e-6, np.dtype(np.float64): 1e-13}


def definition(model, X):
    """Return the features of `X` by the definition of the fitted map."""
    if model.method in ("rational", "power"):
        poles = np.broadcast_to(model.poles_, (model.n_components, X.shape[1]))
        blocks = [oracle.rational_map(x, z) for x, z in zip(dense(X).T, poles.T, strict=True)]
        return np.stack(blocks, axis=2).reshape(X.shape[0], -1)
    if model.method == "chebyshev":
        return oracle.map_rows(X, lambda x: oracle.chebyshev_map(x, model.n_components))
    return oracle.map_rows(
        X, lambda x: oracle.periodic_map(x, model.n_components, model.sample_interval_)
    )


# ---- the maps ----------------------------------------------------------------------------------


@given(
    X=histograms(
        n_rows=(1, 20),
        n_columns=st.one_of(st.integers(1, 40), st.integers(63, 66)),
        dtype=st.sampled_from([np.float32, np.float64]),
        format="any",
        scale=st.sampled_from([1.0, 1.0, "tiny", "huge", "mixed"]),
    ),
    method=st.sampled_from(METHODS),
    n_components=st.integers(1, 12),
    per_column=st.booleans(),
)
def test_a_map_is_its_definition(X, method, n_components, per_column):
    n_components += method == "periodic" and n_components % 2 == 0
    model = AdditiveChi2Map(n_components, method=method, per_column=per_column).fit(X)
    features = model.transform(X)
    assert features.dtype == X.dtype
    assert sparse.issparse(features) == sparse.issparse(X)
    expected = definition(model, X)
    assert features.shape == expected.shape
    # No feature exceeds sqrt(x) in size, and errors are relative to that.
    size = np.tile(np.sqrt(dense(X).astype(np.float64)), n_components)
    error = np.abs(dense(features) - expected)
    log = np.abs(np.log(dense(X), where=dense(X) > 0, out=np.zeros(X.shape)))
    # Angles and the recurrence magnify the rounding of the logarithm.
    growth = np.tile(1 + log * n_components, n_components)
    tiny = float(np.finfo(X.dtype).tiny)
    assert (error <= PRECISION[X.dtype] * growth * size + tiny).all()


def test_the_power_map_is_the_rational_map_with_poles_at_one(rng):
    X = rng.random((9, 4))
    model = AdditiveChi2Map(7, method="power").fit(X)
    expected = oracle.map_rows(X, lambda x: oracle.power_map(x, 7))
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("container", ["C", "CSR array"])
def test_the_periodic_map_is_that_of_scikit_learn(rng, steps, container):
    X = CONTAINERS[container](awkward_histograms(rng, 20))
    theirs = AdditiveChi2Sampler(sample_steps=steps).fit(X)
    ours = AdditiveChi2Map(2 * steps - 1, method="periodic").fit(X)
    np.testing.assert_allclose(
        dense(ours.transform(X)), dense(theirs.transform(X)), rtol=1e-12, atol=1e-14
    )
    names = [name.removeprefix("additivechi2sampler_") for name in theirs.get_feature_names_out()]
    assert list(ours.get_feature_names_out()) == names
    theirs = AdditiveChi2Sampler(sample_steps=4, sample_interval=0.3).fit(X)
    ours = AdditiveChi2Map(7, method="periodic", sample_interval=0.3).fit(X)
    np.testing.assert_allclose(
        dense(ours.transform(X)), dense(theirs.transform(X)), rtol=1e-11, atol=1e-14
    )


@every_method
def test_zeros_have_no_features(rng, method):
    X = CONTAINERS["CSR, explicit zeros"](awkward_histograms(rng, 12))
    model = AdditiveChi2Map(5, method=method).fit(X)
    features = model.transform(X)
    assert features.nnz == 5 * np.count_nonzero(X.toarray())
    assert features.has_canonical_format
    zeros = model.transform(np.zeros((2, 6)))
    np.testing.assert_array_equal(zeros, 0.0)
    nothing = AdditiveChi2Map(5, method=method, per_column=True).fit(np.zeros((3, 2)))
    np.testing.assert_array_equal(nothing.transform(np.zeros((3, 2))), 0.0)
    np.testing.assert_array_equal(nothing.kernel_error_bound_, 0.0)


# ---- the bounds --------------------------------------------------------------------------------


def largest_error(model, x):
    c = definition(model, x[:, None])
    return np.abs(oracle.additive_chi2_kernel(x[:, None]) - c @ c.T).max()


@given(
    method=st.sampled_from(METHODS),
    n_components=st.integers(1, 15),
    low=st.floats(-9, 2),
    width=st.floats(0, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_bound_bounds(method, n_components, low, width, seed):
    n_components += method == "periodic" and n_components % 2 == 0
    domain = 10.0**low, 10.0 ** (low + width)
    model = AdditiveChi2Map(n_components, method=method, domain=domain).fit([[domain[0]]])
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(*np.log(domain), size=30)).clip(*domain)
    x = np.concatenate([x, domain])
    error = largest_error(model, x)
    assert error <= model.kernel_error_bound_ + 1e-12 * domain[1]


@every_method
@pytest.mark.parametrize("n_components", [1, 5, 9, 21])
def test_the_bound_is_nearly_reached(method, n_components):
    model = AdditiveChi2Map(n_components, method=method, domain=(1e-4, 1)).fit([[1.0]])
    x = np.geomspace(1e-4, 1, 3001)
    if method == "periodic":
        # The largest error is at a distance from the diagonal, where one value is 1.
        c = definition(model, x[:, None])
        error = np.abs(2 * x / (1 + x) - c @ c[-1])
        difference = np.abs(x - np.square(c).sum(axis=1))
        assert max(error.max(), difference.max()) >= 0.5 * model.kernel_error_bound_
        return
    difference = x - np.square(definition(model, x[:, None])).sum(axis=1)
    assert np.abs(difference).max() >= 0.99 * model.kernel_error_bound_


# Largest absolute errors for values from 1e-6 to 1.
TABLE = {
    5: {"chebyshev": 8.7e-3, "periodic": 1.5e-2, "rational": 1.1e-3},
    9: {"chebyshev": 4.9e-3, "periodic": 2.9e-3, "rational": 8.9e-5},
    15: {"chebyshev": 3.0e-3, "periodic": 9.3e-4, "rational": 4.1e-6},
    21: {"chebyshev": 2.1e-3, "periodic": 1.2e-4, "rational": 4.2e-7},
}


@pytest.mark.parametrize("n_components", TABLE)
def test_errors_are_those_of_the_table(n_components):
    x = np.geomspace(1e-6, 1, 200)
    errors = {}
    for method in ("rational", "periodic", "chebyshev"):
        model = AdditiveChi2Map(n_components, method=method, domain=(1e-6, 1)).fit([[1.0]])
        if method == "periodic" and n_components == 5:
            # scikit-learn's default interval is not the best there.
            models = [clone(model).set_params(sample_interval=h) for h in (0.50, 0.51, 0.52, 0.53)]
            model = min((m.fit([[1.0]]) for m in models), key=lambda m: m.kernel_error_bound_)
        errors[method] = largest_error(model, x)
        assert errors[method] <= model.kernel_error_bound_ + 1e-14
        # The table had a coarser search for the best interval and the best a.
        assert errors[method] <= 1.03 * TABLE[n_components][method]
        if method == "chebyshev":
            assert errors[method] >= 0.97 * TABLE[n_components][method]
    if n_components == 9:
        assert errors["periodic"] >= 20 * errors["rational"]


@pytest.mark.parametrize("method", ["rational", "chebyshev", "power"])
def test_more_components_are_more_accurate(method):
    bounds = [
        AdditiveChi2Map(m, method=method, domain=(1e-5, 1)).fit([[1.0]]).kernel_error_bound_
        for m in range(1, 12)
    ]
    assert all(b < a for a, b in itertools.pairwise(bounds))


def test_columns_of_different_scale_have_poles_of_their_own(rng):
    X = rng.random((200, 3)) * [1e-6, 1.0, 1e6]
    shared = AdditiveChi2Map(5).fit(X)
    each = AdditiveChi2Map(5, per_column=True).fit(X)
    assert each.poles_.shape == (5, 3)
    ratio = each.poles_[:, 1] / each.poles_[:, 0]
    np.testing.assert_allclose(np.log10(ratio), 6, atol=0.5)
    assert isinstance(shared.kernel_error_bound_, float)
    assert each.kernel_error_bound_.shape == (3,)
    for d in range(3):
        c = each.transform(X)[:, d::3]
        K = additive_chi2_kernel(X[:, [d]])
        assert np.abs(K - c @ c.T).max() <= each.kernel_error_bound_[d] * (1 + 1e-9)
    assert (each.kernel_error_bound_[:2] < shared.kernel_error_bound_ / 10).all()


# ---- values outside the domain -----------------------------------------------------------------


@pytest.mark.parametrize("per_column", [False, True])
@every_method
def test_values_outside_the_domain_give_a_warning_where_they_matter(rng, method, per_column):
    X = rng.uniform(0.5, 1.0, size=(30, 3))
    model = AdditiveChi2Map(5, method=method, per_column=per_column).fit(X)
    sums = X.sum(axis=1)
    errors = np.abs(sums - np.square(model.transform(X)).sum(axis=1)) / sums
    np.testing.assert_allclose(model.relative_error_, errors.max(), rtol=1e-6, atol=1e-14)
    model.transform(np.zeros((2, 3)))
    model.transform(np.vstack([X, X.mean(axis=0) * [1, 1, 0.01]]))
    beyond = X.copy()
    beyond[4, 1] = 300.0
    if method == "periodic":
        # Its error is the same part of every value.
        model.transform(beyond)
        return
    said = set()
    for rows in (beyond, 2 * beyond, sparse.csr_array(beyond)):
        with pytest.warns(UserWarning, match=r"outside the domain.* by more than") as record:
            model.transform(rows)
        said |= {str(warning.message) for warning in record}
    # The same words, so that Python shows a stream of them once.
    assert len(said) == 1


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("factor", [100.0, 1e4, 1e8])
def test_one_row_of_large_values_changes_little_for_others(rng, factor, per_column):
    X = rng.dirichlet(np.ones(20), size=200)
    K = additive_chi2_kernel(X)

    def error(rows):
        c = AdditiveChi2Map(per_column=per_column).fit(rows).transform(X)
        return np.abs(c @ c.T - K).mean() / K.mean()

    with_large = X.copy()
    with_large[0] *= factor
    assert error(X) < 1e-4
    assert error(with_large) < 0.02
    c = AdditiveChi2Map(3, per_column=per_column).fit(with_large).transform(X)
    assert np.abs(c @ c.T - K).mean() < 0.1 * K.mean()


@pytest.mark.parametrize("factor", [1e-200, 1e-30, 1e30, 1e200])
def test_units_do_not_change_the_error(rng, factor):
    X = rng.dirichlet(np.full(8, 0.3), size=60)
    model, scaled = AdditiveChi2Map(5).fit(X), AdditiveChi2Map(5).fit(factor * X)
    np.testing.assert_allclose(scaled.poles_, factor * model.poles_, rtol=1e-9)
    np.testing.assert_allclose(scaled.relative_error_, model.relative_error_, rtol=1e-6)


def test_half_of_the_data_is_enough_for_the_other_half(rng):
    X = rng.dirichlet(np.full(30, 0.2), size=200)
    for _ in range(20):
        order = rng.permutation(200)
        for model in (AdditiveChi2Map(), ExpChi2Sampler(4, random_state=0)):
            model.fit(X[order[:100]]).transform(X[order[100:]])
    with pytest.warns(UserWarning, match="outside the domain"):
        model.transform(1e6 * X)


def test_a_domain_is_taken_as_given(rng):
    X = rng.random((20, 2))
    model = AdditiveChi2Map(5, domain=(1e-3, 2.0)).fit(X)
    np.testing.assert_array_equal(model.domain_, [1e-3, 2.0])
    with pytest.warns(UserWarning, match="outside the domain"):
        other = AdditiveChi2Map(5, domain=[1e-3, 2]).fit(X[:3] * 5)
    np.testing.assert_array_equal(model.poles_, other.poles_)
    from_zero = AdditiveChi2Map(5, domain=(0, 2.0)).fit(X)
    assert from_zero.kernel_error_bound_ >= model.kernel_error_bound_ * (1 - 1e-9)


# ---- parameters and state ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 4, "method": "periodic"}, "odd number of components; use 5"),
        ({"sample_interval": 0.5}, "sample_interval = 0.5 is for method='periodic' only"),
        ({"domain": (1.0, 0.5)}, "two finite numbers 0 <= a <= b"),
        ({"domain": (1.0, np.inf)}, "two finite numbers 0 <= a <= b"),
        ({"domain": (0.0, 0.0)}, "two finite numbers 0 <= a <= b"),
        ({"domain": (1.0, 2.0, 3.0)}, "two finite numbers 0 <= a <= b"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        AdditiveChi2Map(**parameters).fit([[0.5]])


def test_names_of_features():
    X = np.ones((2, 2))
    names = AdditiveChi2Map(2).fit(X).get_feature_names_out(["a", "b"])
    assert list(names) == ["a_0", "b_0", "a_1", "b_1"]


# ---- random features of the exponential kernel -------------------------------------------------

PROJECTIONS = ["structured", "gaussian", "orthogonal"]
every_projection = pytest.mark.parametrize("projection", PROJECTIONS)


def random_features(model, X):
    """Return the features of `X` by the definition of the fitted sampler."""
    C = definition(model.base_map_, X)
    n_projections = model.n_components // 2
    W = model.projection_.T
    if model.projection == "structured":
        W = oracle.structured_projections(model.projection_, n_projections)[:, : C.shape[1]]
    return oracle.fourier_features(C, W, model.gamma_)


@given(
    X=histograms(
        n_rows=(1, 35),
        n_columns=(1, 9),
        dtype=st.sampled_from([np.float32, np.float64]),
        format="any",
    ),
    projection=st.sampled_from(PROJECTIONS),
    n_pairs=st.sampled_from([1, 2, 7, 8, 9, 16, 17, 33, 70]),
    n_map=st.integers(1, 5),
    method=st.sampled_from(["rational", "rational", "chebyshev", "power"]),
)
def test_random_features_are_their_definition(X, projection, n_pairs, n_map, method):
    base_map = AdditiveChi2Map(n_map, method=method)
    model = ExpChi2Sampler(
        2 * n_pairs, gamma=0.1, base_map=base_map, projection=projection, random_state=0
    ).fit(X)
    Z = model.transform(X)
    assert Z.dtype == X.dtype
    assert Z.shape == (X.shape[0], 2 * n_pairs)
    # Errors of an angle are relative to the length of the row's features.
    length = np.sqrt(dense(X).sum(axis=1, dtype=np.float64))[:, None]
    scale = (1 + length * np.sqrt(model.projection_.shape[-1])) / np.sqrt(n_pairs)
    error = np.abs(Z - random_features(model, X))
    assert (error <= 10 * PRECISION[X.dtype] * scale).all()


@pytest.mark.parametrize("n_columns", [60, 300])
def test_wide_transforms_are_their_definition(rng, n_columns):
    X = rng.dirichlet(np.ones(n_columns), size=19)
    model = ExpChi2Sampler(700, gamma=2.0, random_state=1).fit(X)
    np.testing.assert_allclose(model.transform(X), random_features(model, X), atol=1e-12)


@every_projection
def test_inner_products_are_near_the_kernel(rng, projection):
    X = rng.dirichlet(np.full(30, 0.5), size=60)
    K = exp_chi2_kernel(X, gamma=1.5)
    errors = []
    for seed in range(5):
        model = ExpChi2Sampler(4000, gamma=1.5, projection=projection, random_state=seed)
        Z = model.fit_transform(X)
        np.testing.assert_allclose(np.square(Z).sum(axis=1), 1.0, rtol=1e-12)
        errors.append(Z @ Z.T - K)
    # Of cos(w) the variance is at most (1 - k^2)^2 / 2, divided by 2,000 projections.
    assert np.sqrt(np.mean(np.square(errors))) <= 1.3 * np.sqrt(0.5 / 2000)
    assert np.abs(np.mean(errors, axis=0)).max() <= 5 * np.sqrt(0.5 / 10_000)


def test_structured_projections_vary_less_than_gaussian_ones(rng):
    X = rng.dirichlet(np.full(30, 0.5), size=60)
    K = exp_chi2_kernel(X, gamma=1.5)

    def rms(projection):
        errors = []
        for seed in range(20):
            model = ExpChi2Sampler(512, gamma=1.5, projection=projection, random_state=seed)
            Z = model.fit_transform(X)
            errors.append(Z @ Z.T - K)
        return np.sqrt(np.mean(np.square(errors)))

    assert rms("structured") < 0.9 * rms("gaussian")
    assert rms("orthogonal") < 0.9 * rms("gaussian")


def test_gamma_is_chosen_from_the_data(rng):
    X = rng.dirichlet(np.ones(8), size=200)
    scale = ExpChi2Sampler(2, base_map=AdditiveChi2Map(15)).fit(X).gamma_
    # Twice the variance is the mean distance.
    np.testing.assert_allclose(scale, 0.5 / chi2_distances(X).mean(), rtol=1e-4)
    median = ExpChi2Sampler(2, gamma="median").fit(X).gamma_
    pairs = chi2_distances(X)[np.triu_indices(200, 1)]
    np.testing.assert_allclose(median, 1 / np.median(pairs), rtol=1e-12)
    many = rng.dirichlet(np.ones(8), size=1500)
    models = [ExpChi2Sampler(2, gamma="median", random_state=7).fit(many) for _ in range(2)]
    assert models[0].gamma_ == models[1].gamma_
    np.testing.assert_allclose(models[0].gamma_, 1 / np.median(chi2_distances(many)), rtol=0.05)
    for gamma in ("scale", "median"):
        assert ExpChi2Sampler(2, gamma=gamma).fit(np.ones((3, 2))).gamma_ > 0


def test_gamma_is_chosen_by_the_error_of_rows_left_out(rng):
    X = rng.dirichlet(np.ones(6), size=300)
    scale = ExpChi2Sampler(2).fit(X).gamma_
    additive = np.sqrt(X).sum(axis=1)
    rough = np.sign(np.sin(12 * X[:, 0]) * np.sin(12 * X[:, 1]))
    gammas = [ExpChi2Sampler(2, gamma="auto").fit(X, y).gamma_ for y in (additive, rough)]
    assert gammas[0] < scale < gammas[1]
    labels = np.where(rough > 0, "up", "down")
    assert ExpChi2Sampler(2, gamma="auto").fit(X, labels).gamma_ == gammas[1]
    both = ExpChi2Sampler(2, gamma="auto").fit(X, np.column_stack([rough, rough + 0.5]))
    assert both.gamma_ == gammas[1]
    model = ExpChi2Sampler(2, gamma="auto").fit(X, labels)
    for y, message in ((None, "needs y"), (labels[:-1], "X has 300 rows, but y 299")):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y)
    assert model.gamma_ == gammas[1]


@pytest.mark.parametrize("n_components", [1, 41])
def test_an_odd_number_of_features_has_the_right_mean(rng, n_components):
    X = rng.dirichlet(np.full(6, 0.5), size=7)
    products = []
    for seed in range(60):
        model = ExpChi2Sampler(n_components, gamma=1.5, random_state=seed).fit(X)
        Z = model.transform(X)
        assert Z.shape == (7, n_components)
        products.append(Z @ Z.T)
    # Of one product the variance is at most 1, and of 49 pairs of rows none is 5 sigma off.
    deviation = np.mean(products, axis=0) - exp_chi2_kernel(X, gamma=1.5)
    assert np.abs(deviation).max() <= 5 / np.sqrt(60 * ((n_components + 1) // 2))


def test_whole_numbers_are_targets_of_regression_unless_they_are_few(rng):
    numbers = rng.integers(0, 1000, size=500)
    targets = _scale_search.signed_targets
    for y in (numbers, numbers.astype(float), np.stack([numbers, numbers % 3], axis=1)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = targets(y, 500, slice(0, 40))
        np.testing.assert_array_equal(found, y[:40].reshape(40, -1))
    np.testing.assert_array_equal(targets(numbers % 2.0, 500)[:, 0], numbers % 2)
    for classes in (numbers % 4, (numbers % 4)[:, None], np.array(list("abcd"))[numbers % 4]):
        expected = np.where((numbers % 4)[:, None] == np.arange(4), 1.0, -1.0)
        np.testing.assert_array_equal(targets(classes, 500), expected)
    X = rng.dirichlet(np.ones(5), size=500)
    y = (1e4 * X[:, :2]).astype(int)
    models = [ExpChi2Sampler(4, gamma="auto", random_state=0).fit(X, Y) for Y in (y, y * 1.0)]
    assert models[0].gamma_ == models[1].gamma_


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_training_rows_outside_a_given_domain_do_not_hide_themselves(convert):
    X = convert(load_digits().data[:200])
    model = AdditiveChi2Map(domain=(0, 1))
    with pytest.warns(UserWarning, match="outside the domain 0 to 1"):
        model.fit(X)
    assert model.relative_error_ > 0.5
    with pytest.warns(UserWarning, match="outside the domain 0 to 1"):
        model.transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit_transform(X / 16)


@pytest.mark.parametrize("n_components", [6, 7])
@pytest.mark.parametrize("projection", ["structured", "gaussian"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_features_are_written_where_they_are_wanted(rng, n_components, projection, dtype):
    X = rng.random((40, 5)).astype(dtype)
    model = ExpChi2Sampler(n_components, projection=projection, random_state=0).fit(X)
    out = np.full((40, n_components), np.nan, dtype)
    for rows in (X, sparse.csr_array(X)):
        out[:] = np.nan
        assert model.transform(rows, out=out) is out
        np.testing.assert_array_equal(out, model.transform(rows))


@pytest.mark.parametrize(
    "out",
    [
        np.empty((40, 5)),
        np.empty((39, 6)),
        np.empty((40, 6), np.float32),
        np.empty((6, 40)).T,
        np.empty((40, 12))[:, ::2],
        np.frombuffer(bytes(40 * 6 * 8)).reshape(40, 6),
        [[0.0] * 6] * 40,
    ],
)
def test_places_that_do_not_fit_are_refused(rng, out):
    X = rng.random((40, 5))
    model = ExpChi2Sampler(6, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"^out is .*: give a writeable array of shape \(40, 6\)"):
        model.transform(X, out=out)


# ---- arrays of the caller that maps write into ---------------------------------------------------

MAPS = pytest.mark.parametrize(
    "make",
    [lambda n: ExpChi2Sampler(n, random_state=0), lambda n: SlicedDistanceMap(n, random_state=0)],
    ids=["exp-chi2", "sliced"],
)
SIZES = pytest.mark.parametrize("n", [5, 6])


@MAPS
@SIZES
def test_a_memmap_comes_back_as_itself(make, n, rng, tmp_path):
    X = rng.random((40, 6))
    model = make(n).fit(X)
    out = np.memmap(tmp_path / "rows", np.float64, "w+", shape=(40, n))
    assert model.transform(X, out=out) is out
    np.testing.assert_array_equal(np.asarray(out), model.transform(X))


@MAPS
@SIZES
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_rows_may_be_written_over(make, n, shift, rng):
    # More rows than a block, of which later ones would be read after they were written.
    memory = rng.random(3000 * n + shift * n)
    X = memory[: 3000 * n].reshape(3000, n)
    out = memory[shift * n :].reshape(3000, n)
    model = make(n).fit(X)
    expected = model.transform(X)
    assert model.transform(X, out=out) is out
    np.testing.assert_array_equal(out, expected)


@MAPS
def test_memory_that_is_not_aligned_is_refused(make, rng):
    X = rng.random((40, 5))
    out = np.frombuffer(bytearray(40 * 6 * 8 + 1), np.uint8)[1:].view(np.float64).reshape(40, 6)
    with pytest.raises(ValueError, match=r"^out is .*, not aligned: give a writeable array"):
        make(6).fit(X).transform(X, out=out)


# ---- what was fitted answers, whatever is set later ----------------------------------------------

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
    (
        SlicedDistanceMap(6, columns_weight=2.0, random_state=0),
        {"n_projections": 3, "columns_weight": 0.0, "metric": np.eye(6), "directions": "gaussian"},
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
