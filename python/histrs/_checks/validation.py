"""Checks of arguments: histograms as the core takes them, and numbers of threads."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import utils
from sklearn.base import is_classifier
from sklearn.utils import validation
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads, _openmp_parallelism_enabled
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import type_of_target

from histrs import _histrs
from histrs._checks.sparse import refuse_sparse, sound
from histrs._distributed.rows import is_dask
from histrs._frames import frame_of, numbers_of, refuse_text
from histrs._typing import Array, CoreMatrix, Matrix

# What every check of histograms asks of scikit-learn. The core itself looks for negative and
# non-finite entries, because it can name the index of the first and reads the data anyway.
HISTOGRAM_CHECKS: Mapping[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "ensure_all_finite": False,
}

_ABSENT = "no_validation"
"""What scikit-learn takes for an argument that is not there; X and y have it as their default."""

_COMPLEX = "Complex data not supported: {} must hold real numbers."

# Sums that only look for what is not finite, and casts: errors tell of it, not NumPy's warnings.
_QUIET: Mapping[str, Any] = {"over": "ignore", "invalid": "ignore"}


class NameOptions(StrOptions):
    """The names that a parameter may have, which errors list in the order of the alphabet.

    Those of a set come in an order that differs from run to run.
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(set(names))

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, sorted(self.options)))}}}"


def validate_data(estimator: Any, X: Any = _ABSENT, y: Any = _ABSENT, **checks: Any) -> Any:
    """Return what scikit-learn's `validate_data` does, once sparse matrices are known to be sound.

    Every estimator goes through here, and every function through `check_array`: scikit-learn
    converts sparse matrices before it looks at them, and SciPy's conversions trust the parts.
    """
    X = sound(X, "X") if sparse.issparse(X) else X
    frame = frame_of(X)
    with (
        np.errstate(**_QUIET),
        _wrappers_named(estimator, y),
        _bad_targets_named(y),
        bad_rows_named(X, "X"),
    ):
        X = numbers_of(X if frame is None else frame)
        if frame is None:
            return validation.validate_data(estimator, X, y, **checks)  # noqa: TID251
        # The names are those of the frame, and the numbers those of its columns.
        validate_columns(estimator, frame, y, reset=checks.pop("reset", True))
        if y is None or y is _ABSENT:
            return validation.check_array(  # noqa: TID251
                X, estimator=estimator, input_name="X", **checks
            )
        return validation.check_X_y(X, y, estimator=estimator, **checks)


def validate_columns(estimator: Any, X: Any, y: Any = _ABSENT, *, reset: bool) -> None:
    """Check, or note, the number and the names of the columns of a table."""
    frame = frame_of(X)
    native = X if frame is None else frame.to_native()
    validation.validate_data(  # noqa: TID251
        estimator, native, y, reset=reset, skip_check_array=True
    )


@contextmanager
def bad_rows_named(X: Any, name: str) -> Iterator[None]:
    """Say which column holds text, and which row is the first with NaN or infinity.

    Of complex numbers, say so without showing them.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        # Of a list of lists Python's own words.
        if re.match(r"Complex data|float\(\) argument must be .* not 'complex'", str(error)):
            raise ValueError(_COMPLEX.format(name)) from None
        refuse_text(X, name)
        if str(error).startswith(f"Input {name} contains"):
            _refuse_first(numbers_of(X, name), name, nan_is_welcome="infinity" in str(error))
        raise


def _refuse_first(X: Any, name: str, *, nan_is_welcome: bool) -> None:
    if sparse.issparse(X):
        check_finite(sound(X, name).tocsr(), name)
        return
    numbers = np.asarray(X, dtype=np.float64)
    if nan_is_welcome and np.isinf(numbers).any():
        numbers = np.where(np.isinf(numbers), numbers, 0.0)
    check_finite(numbers, name)


@contextmanager
def naming_rows(rows: NDArray[np.intp] | None) -> Iterator[None]:
    """Name the rows of the argument in errors of what is done with some of them; None for all."""
    try:
        yield
    except ValueError as error:
        if rows is None:
            raise
        message = with_rows_named(str(error), lambda row: int(rows[row]))
        raise ValueError(message) from error


def with_rows_named(message: str, row_of: Callable[[int], int]) -> str:
    """Return a message about a row of X, or Z, with the number of the row in another place."""
    return re.sub(r"\b([XZ])\[(\d+)", lambda found: f"{found[1]}[{row_of(int(found[2]))}", message)


@contextmanager
def _wrappers_named(estimator: Any, y: Any) -> Iterator[None]:
    """Say which of scikit-learn's wrappers take what a classifier refuses: several columns."""
    try:
        yield
    except ValueError as error:
        refused = str(error).startswith("y should be a 1d array") and np.ndim(y) == 2
        if not refused or not is_classifier(estimator):
            raise
        labels = type_of_target(y) == "multilabel-indicator"
        wrappers = f"{'OneVsRestClassifier or ' if labels else ''}MultiOutputClassifier"
        raise ValueError(
            f"{error} {type(estimator).__name__} takes one class per row: for several, wrap it in "
            f"scikit-learn's {wrappers}."
        ) from error


def check_array(X: Any, *, input_name: str = "X", **checks: Any) -> Any:
    """Return what scikit-learn's `check_array` does, once a sparse matrix is known to be sound."""
    X = sound(X, input_name) if sparse.issparse(X) else X
    with np.errstate(**_QUIET), bad_rows_named(X, input_name):
        X = numbers_of(X, input_name)
        return validation.check_array(X, input_name=input_name, **checks)  # noqa: TID251


def validate_fit(
    estimator: Any, X: ArrayLike | Matrix, y: ArrayLike, **checks: Any
) -> tuple[Matrix, NDArray[Any]]:
    """Return `X` and `y` as `fit` needs them."""
    refuse_sparse(y, "y")
    X, y = validate_data(estimator, X, y, **HISTOGRAM_CHECKS, **checks)
    return X, y


def validate_targets(estimator: Any, y: ArrayLike, **checks: Any) -> NDArray[Any]:
    """Return `y` as `fit` needs it, where `X` is a table that is looked at by itself."""
    refuse_sparse(y, "y")
    # One that has seen no features asks for none.
    targets: NDArray[Any] = validate_data(type(estimator)(), y=y, **checks)
    return targets


@contextmanager
def _bad_targets_named(y: Any) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Input y contains") or sparse.issparse(y):
            raise
        entries = np.asarray(y)
        known = entries == entries if entries.dtype.kind == "O" else np.isfinite(entries)
        entry = tuple(np.argwhere(~np.asarray(known, dtype=bool))[0].tolist())
        index = ", ".join(str(i) for i in entry)
        # Other targets of the row are worth learning from.
        several = np.ndim(y) == 2 and np.shape(y)[1] > 1
        cure = ", or fit each target by itself, to the rows that have it" if several else ""
        raise ValueError(
            f"{error}\nThe first is y[{index}]; drop or impute the row{cure}."
        ) from error


def stored(X: Matrix) -> NDArray[Any]:
    """Return the entries that a matrix stores."""
    entries: NDArray[Any] = X.data if sparse.issparse(X) else np.asarray(X)
    return entries


def check_finite(X: Matrix, name: str, cure: str = "impute or drop the row") -> None:
    """Refuse entries that are no numbers, as the core does; the message names the first."""
    bad = np.argwhere(~np.isfinite(stored(X)))
    if len(bad) == 0:
        return
    first = tuple(bad[0].tolist())
    value = stored(X)[first]
    if sparse.issparse(X):
        first = (int(np.searchsorted(X.indptr, first[0], side="right")) - 1, X.indices[first[0]])
    index, shown = ", ".join(map(str, first)), "NaN" if np.isnan(value) else str(value)
    raise ValueError(f"{name}[{index}] = {shown}: Input {name} contains NaN or infinity; {cure}.")


def to_core(X: Matrix) -> CoreMatrix:
    """Return `X`, checked by scikit-learn, in the form that the core takes without a copy."""
    if is_dask(X):
        raise TypeError("X is a dask array, but rows in memory are needed: give X.compute().")
    if not sparse.issparse(X):
        return np.asarray(X)
    if X.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(
            f"X has {X.shape[1]} columns, and the column index type holds at most "
            f"{np.iinfo(np.int32).max}; hash or select features first."
        )
    return (
        X.data,
        X.indices.astype(np.int32, copy=False),
        X.indptr.astype(np.int64, copy=False),
        X.shape[1],
    )


def canonical(X: Matrix) -> Matrix:
    """Return `X` with sorted indices, no duplicates and no stored zeros, copied if need be."""
    if not sparse.issparse(X):
        return X
    if X.has_canonical_format and np.all(X.data):
        return X
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def real_array(values: Any, name: str) -> Array:
    """Return numbers as an array in double precision, of any shape; entries are not looked at."""
    refuse_sparse(values, name)
    try:
        with np.errstate(**_QUIET):
            array = np.asarray(values)
            real = array.dtype.kind != "c"
            array = array.astype(np.float64, copy=False) if real else array
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from error
    if not real:
        raise ValueError(_COMPLEX.format(name))
    return array


def check_random_state(seed: Any) -> np.random.RandomState:
    """Return what scikit-learn's `check_random_state` does; the error names the parameter."""
    if isinstance(seed, Integral):
        # NumPy takes no bool.
        seed = int(seed)
        if not 0 <= seed < 2**32:
            raise ValueError(f"random_state = {seed}: a seed is between 0 and 2**32 - 1.")
    state: np.random.RandomState = utils.check_random_state(seed)  # noqa: TID251
    return state


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` asks for.

    The rule is that of scikit-learn's own native code. None and -1 stand for every core, within the
    limits of `OMP_NUM_THREADS`, of threadpoolctl for OpenMP, and of a joblib worker. So
    ``GridSearchCV(n_jobs=-1)`` runs a thread for each core in all, and not in each worker.
    -2 stands for one fewer, and so on. A positive number is taken as it is, up to four threads a
    core, in a worker of threads of joblib up to what joblib allows there.
    """
    try:
        n_jobs = -1 if n_jobs is None else operator.index(n_jobs)
    except TypeError as error:
        raise TypeError(f"n_jobs must be an integer or None, got {n_jobs!r}.") from error
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 has no meaning; use -1 for every core.")
    if n_jobs > 0:
        return min(int(effective_n_jobs(n_jobs)), _histrs.most_threads())
    # joblib knows its workers and the cores that the process may use, OpenMP the other limits.
    limits = [int(effective_n_jobs(-1)), _histrs.most_threads()]
    if _openmp_parallelism_enabled():
        limits.append(int(_openmp_effective_n_threads(only_physical_cores=False)))
    return max(1, min(limits) + 1 + n_jobs)


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Leave the estimator as it was when the block raises."""
    state = estimator.__dict__.copy()
    try:
        yield
    except BaseException:
        estimator.__dict__ = state
        raise
