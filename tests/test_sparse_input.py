"""Damaged sparse matrices are refused at every entry, before anyone follows their indices."""

import numpy as np
import pytest
from scipy import sparse

from histrs import metrics
from histrs._checks.sparse import sound
from histrs.gaussian_process import IntersectionGPRegressor, active_learning
from histrs.kernel_approximation import AdditiveChi2Map, KernelProjectionMap
from histrs.streaming import Moments, PCARidge, digest
from histrs.transport import sinkhorn_barycenter
from tests.all_estimators import CASES as ESTIMATORS
from tests.helpers import run_python
from tests.test_every_estimator import calls_of, fitted

N_ROWS, N_COLUMNS = 12, 6
LABELS = np.arange(N_ROWS) % 2
GROUND = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))


def histograms(format_):
    X = np.random.default_rng(0).dirichlet(np.ones(N_COLUMNS), size=N_ROWS)
    if format_ == "bsr":
        return sparse.csr_array(X).tobsr(blocksize=(2, 3))
    return sparse.csr_array(X).asformat(format_)


def with_part(name, change):
    def damage(X):
        X = X.copy()
        setattr(X, name, change(getattr(X, name).copy()))
        return X

    return damage


def put(index, value):
    def change(part):
        part[index] = value
        return part

    return change


def with_coordinates(change, axis):
    def damage(X):
        X = X.copy()
        coords = list(X.coords)
        coords[axis] = change(coords[axis].copy())
        X.coords = tuple(coords)
        return X

    return damage


def without_columns(X):
    X = X.copy()
    X.coords = X.coords[:1]
    return X


def wide(part):
    return part.astype(np.int64)


COMPRESSED = {
    "an index far outside": with_part("indices", put(3, 2_000_000_000)),
    "an index just outside": with_part("indices", put(3, 12)),
    "a negative index": with_part("indices", put(3, -1)),
    "a wide index far outside": with_part("indices", lambda i: put(3, 2**40)(wide(i))),
    "a wide index that looks right in 32 bits": with_part(
        "indices", lambda i: put(3, 2**32 + 1)(wide(i))
    ),
    "fewer indices than values": with_part("indices", lambda i: i[:-1]),
    "fewer values than indices": with_part("data", lambda d: d[:-1]),
    "floats for indices": with_part("indices", lambda i: i.astype(float)),
    "indices in two dimensions": with_part("indices", lambda i: i[:, None]),
    "indices in a list": with_part("indices", lambda i: i.tolist()),
    "a short row pointer": with_part("indptr", lambda i: i[:-1]),
    "a long row pointer": with_part("indptr", lambda i: np.append(i, i[-1])),
    "a row pointer beyond the end": with_part("indptr", put(-1, 10**6)),
    "a row pointer that descends": with_part("indptr", put(2, 10**6)),
    "a negative row pointer": with_part("indptr", put(1, -3)),
    "a row pointer that begins late": with_part("indptr", put(0, 1)),
}
DAMAGES = {
    "csr": COMPRESSED | {"values in two dimensions": with_part("data", lambda d: d[:, None])},
    "csc": COMPRESSED | {"values in two dimensions": with_part("data", lambda d: d[:, None])},
    "bsr": COMPRESSED | {"values in one dimension": with_part("data", np.ravel)},
    "coo": {
        "a column far outside": with_coordinates(put(3, 2_000_000_000), 1),
        "a column just outside": with_coordinates(put(3, N_COLUMNS), 1),
        "a negative column": with_coordinates(put(3, -1), 1),
        "a row far outside": with_coordinates(put(3, 2_000_000_000), 0),
        "a negative row": with_coordinates(put(3, -1), 0),
        "fewer rows than columns": with_coordinates(lambda i: i[:-1], 0),
        "floats for columns": with_coordinates(lambda i: i.astype(float), 1),
        "fewer values": with_part("data", lambda d: d[:-1]),
        "values in two dimensions": with_part("data", lambda d: d[:, None]),
        "one array of coordinates": without_columns,
    },
    "dia": {
        "an offset far outside": with_part("offsets", put(0, -2_000_000_000)),
        "fewer offsets": with_part("offsets", lambda o: o[:-1]),
        "an offset twice": with_part("offsets", lambda o: put(1, o[0])(o)),
        "values in one dimension": with_part("data", np.ravel),
    },
    "lil": {
        "a column outside": with_part("rows", put(2, [0, 1, 2, 3, 4, 2_000_000_000])),
        "a negative column": with_part("rows", put(2, [-1, 0, 1, 2, 3, 4])),
        "more columns than values": with_part("rows", put(2, list(range(6)) * 1000)),
        "more values than columns": with_part("data", put(2, [0.0] * 6000)),
        "fewer rows": with_part("rows", lambda rows: rows[:-1]),
    },
}
CASES = [(f, name) for f, damages in DAMAGES.items() for name in damages]
ALL_CASES = pytest.mark.parametrize(("format_", "name"), CASES, ids=[f"{f}, {n}" for f, n in CASES])


@ALL_CASES
def test_every_damage_is_found(format_, name):
    X = DAMAGES[format_][name](histograms(format_))
    with pytest.raises(ValueError, match=f"malformed {format_.upper()} matrix Q: .*check"):
        sound(X, "Q")


def test_a_key_outside_a_dictionary_is_found():
    X = histograms("dok")
    X._dict[(2, 2_000_000_000)] = 1.0
    with pytest.raises(ValueError, match=r"2000000000|exceeds"):
        sound(X)


@pytest.mark.parametrize("format_", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (1, 1), (0, 4), (4, 0), (0, 0)])
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_sound_matrices_pass(format_, shape, container):
    rng = np.random.default_rng(1)
    X = container(rng.random(shape) * (rng.random(shape) < 0.6)).asformat(format_)
    np.testing.assert_array_equal(sound(X).toarray(), X.toarray())
    np.testing.assert_array_equal(sound(X.T).toarray(), X.toarray().T)


def test_wide_indices_and_room_to_spare_pass():
    X = histograms("csr")
    X.indices, X.indptr = np.append(wide(X.indices), -7), wide(X.indptr)
    X.data = np.append(X.data, np.nan)
    found = sound(X)
    assert len(found.data) == found.nnz
    np.testing.assert_array_equal(found.toarray(), histograms("csr").toarray())


@pytest.mark.parametrize("format_", ["csr", "coo"])
def test_vectors_pass(format_):
    X = sparse.coo_array(np.array([0.0, 1.0, 2.0])).asformat(format_)
    np.testing.assert_array_equal(sound(X).toarray(), X.toarray())


# ---- every public entry --------------------------------------------------------------------------


def error_of(call, X):
    """Return the ValueError that a call raises, or None."""
    try:
        call(X)
    except ValueError as error:
        return error
    return None


# One of every way in which a reader leaves the memory of the matrix.
ENTRY_CASES = [
    ("csr", "an index far outside"),
    ("csr", "an index just outside"),
    ("csr", "a wide index that looks right in 32 bits"),
    ("csr", "a row pointer that descends"),
    ("csr", "fewer values than indices"),
    ("csc", "an index far outside"),
    ("csc", "a row pointer beyond the end"),
    ("bsr", "an index far outside"),
    ("coo", "a row far outside"),
    ("coo", "a column just outside"),
    ("dia", "an offset twice"),
    ("lil", "a column outside"),
]


TAKES_SPARSE = [case for case in ESTIMATORS if case.make().__sklearn_tags__().input_tags.sparse]


@pytest.mark.parametrize("case", TAKES_SPARSE, ids=lambda case: type(case.make()).__name__)
def test_estimators_refuse_damaged_matrices(case):
    X, y, model = fitted(case)
    rows = sparse.csr_array(X)
    for format_, damage in ENTRY_CASES:
        bad = DAMAGES[format_][damage](rows.asformat(format_))
        for call in calls_of(model, y):
            error = error_of(call, bad)
            assert "malformed" in str(error), f"{call} of {format_}, {damage}: {error!r}"


FUNCTIONS = {
    **{
        name: getattr(metrics, name)
        for name in (
            "intersection_kernel",
            "additive_chi2_kernel",
            "exp_chi2_kernel",
            "chi2_distances",
            "hellinger_kernel",
            "jensen_shannon_kernel",
            "minmax_kernel",
            "minmax_distances",
        )
    },
    "second argument": lambda X: metrics.intersection_kernel(histograms("csr"), X),
    "dense and sparse": lambda X: metrics.chi2_distances(histograms("csr").toarray(), X),
    "sinkhorn_distances": lambda X: metrics.sinkhorn_distances(X, M=GROUND, reg=0.5),
    "sinkhorn_barycenter": lambda X: sinkhorn_barycenter(X, M=GROUND, reg=0.5),
    "Moments.update": lambda X: Moments(N_COLUMNS).update(X),
    "Moments.of": Moments.of,
    "Moments.of chunks": lambda X: Moments.of([histograms("csr"), X]),
    "Moments.of a map": lambda X: Moments.of(
        X, feature_map=AdditiveChi2Map(n_components=3).fit(histograms("csr"))
    ),
    "landmarks": lambda X: KernelProjectionMap(landmarks=X).fit(histograms("csr")),
    "digest": lambda X: digest(KernelProjectionMap(landmarks=X)),
    "fit_rows": lambda X: PCARidge().fit_rows(X, LABELS),
    "active_learning": lambda X: list(
        active_learning.learn(
            IntersectionGPRegressor(optimizer=None, random_state=0),
            X,
            LABELS.__getitem__,
            labelled=[0, 1],
            n_rounds=1,
            strategy="random",
        )
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_refuse_damaged_matrices(name):
    for format_, damage in ENTRY_CASES:
        error = error_of(FUNCTIONS[name], DAMAGES[format_][damage](histograms(format_)))
        assert "malformed" in str(error), f"{format_}, {damage}: {error!r}"


def test_the_process_survives_an_index_far_outside():
    run_python(
        """
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from histrs.streaming import Moments
X = csr_matrix(np.eye(4))
X.indices[1] = 2_000_000_000
with pytest.raises(ValueError, match="a column index is 2000000000, not one of 0 to 3"):
    Moments(4).update(X)
print("true")
"""
    )
