"""Which unlabelled rows a Gaussian process would learn most from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from histrs._checks.numbers import numbers_checked
from histrs._checks.sparse import sound
from histrs._checks.validation import check_random_state
from histrs._typing import Array, Matrix
from histrs.gaussian_process._classifier import GPClassifier
from histrs.gaussian_process._regressor import GPRegressor
from histrs.gaussian_process._state import copied

__all__ = ["Round", "learn", "query", "query_strategy"]

Strategy: TypeAlias = Literal["variance-reduction", "mean", "variance", "uncertainty", "random"]
Indices: TypeAlias = NDArray[np.intp]
RandomState: TypeAlias = int | np.random.RandomState | None
Model: TypeAlias = GPClassifier | GPRegressor

# Rows of the pool whose covariances are in memory, unless more are asked for.
_MOST_COVARIED = 2048


@numbers_checked
def query(
    model: Model,
    pool: ArrayLike | Matrix,
    strategy: Strategy = "variance-reduction",
    n_instances: int = 1,
    *,
    random_state: RandomState = None,
) -> Indices:
    r"""Choose the rows of a pool whose labels are worth asking for.

    With the posterior mean :math:`\mu` and the predictive variance :math:`\sigma^2` (eqs. 2, 3):

    ================= ==================================== ========
    strategy          the smallest of                      equation
    ================= ==================================== ========
    ``"mean"``        :math:`|\mu(x)|`                     (33)
    ``"variance"``    :math:`-\sigma^2(x)`                 (34)
    ``"uncertainty"`` :math:`|\mu(x)| / \sigma(x)`         (35)
    ``"random"``      a random number
    ================= ==================================== ========

    ``"variance-reduction"``, the default, takes the row whose label lowers the variances of the
    others in the pool most (Cohn, 1996). With posterior covariances :math:`c` of latent functions,
    it is the row with the largest

    .. math:: \frac{\sum_{x'} u(x') c(x, x')^2}{\sigma^2(x)},

    where :math:`u = 1 - \sum_c p_c^2` is the uncertainty of the class of a row, and 1 for a
    regressor. Before the next row of a batch is chosen, the covariances are conditioned on the
    chosen rows.

    With more than two classes, :math:`|\mu|` is half the difference of the two best scores. For a
    regressor, only the variance decides.

    Parameters
    ----------
    model : GPClassifier or GPRegressor
        A fitted model.
    pool : {array-like, sparse matrix} of shape (n_pool, n_features)
        Unlabelled histograms.
    strategy : str, default="variance-reduction"
        How the rows to ask for are chosen: "variance-reduction" or one of the table.
    n_instances : int, default=1
        Number of rows to choose. The strategies of the table choose each as if it were alone.
    random_state : int, RandomState instance or None, default=None
        For ``"random"``, for ties of the others, and to draw 2,048 rows from a larger pool.

    Returns
    -------
    indices : ndarray of shape (n_instances,)
        Rows of the pool, the most wanted first.

    Raises
    ------
    ValueError
        If the strategy is unknown, or needs classes and `model` is a regressor. If the pool has
        fewer than `n_instances` rows, or another number of columns than the training data.

    References
    ----------
    .. [1] A. Kapoor, K. Grauman, R. Urtasun and T. Darrell, "Gaussian processes for object
       categorization", International Journal of Computer Vision 88, 2010.
    .. [2] D. A. Cohn, "Neural network exploration using optimal experiment design", Neural
       Networks 9, 1996.
    .. [3] E. Rodner et al., "Large-scale Gaussian process inference with generalized histogram
       intersection kernels for visual recognition tasks", IJCV, 2016, section 8.2.

    Examples
    --------
    >>> from histrs.gaussian_process import GPClassifier, active_learning
    >>> model = GPClassifier(optimizer=None).fit([[1.0], [0.0]], ["left", "right"])
    >>> active_learning.query(model, [[0.9], [0.5], [0.2]], "mean")
    array([1])
    """
    _check_model(model)
    check_is_fitted(model)
    _check_strategy(strategy, model)
    n_pool = _num_samples(pool)
    if not 1 <= n_instances <= n_pool:
        raise ValueError(
            f"n_instances = {n_instances} of a pool of {n_pool} rows: ask for at least 1 and at "
            "most all of them."
        )
    random = check_random_state(random_state).permutation(n_pool)
    if strategy == "random":
        # Also a pool that nothing is computed for must fit the model.
        model.predict(pool)
        chosen: Indices = random[:n_instances]
        return chosen
    if strategy == "variance-reduction":
        candidates = random[: max(_MOST_COVARIED, n_instances)]
        rows = _safe_indexing(
            sparse.csr_array(sound(pool)) if sparse.issparse(pool) else pool, candidates
        )
        reducing: Indices = candidates[_reducing(copied(model), rows, n_instances)]
        return reducing
    order = np.lexsort((random, _cost(model, pool, strategy)))
    return order[:n_instances]


def _check_model(model: Any) -> None:
    if not (hasattr(model, "_check_test") and hasattr(model, "_read")):
        # Not shown: that of a damaged matrix cannot be.
        raise TypeError(
            f"model is a {type(model).__name__}, not a Gaussian process of histrs: give one, such "
            "as IntersectionGPClassifier()."
        )


def _check_strategy(strategy: str, model: Model | None = None) -> None:
    """Fail unless there is a strategy of that name, for that kind of model."""
    if strategy not in get_args(Strategy):
        names = ", ".join(repr(name) for name in get_args(Strategy))
        raise ValueError(f"strategy = {strategy!r}: choose one of {names}.")
    if isinstance(model, GPRegressor) and strategy in ("mean", "uncertainty"):
        raise ValueError(
            f"strategy = {strategy!r} needs classes, which a regressor does not have: "
            "choose 'variance-reduction', 'variance' or 'random'."
        )


def _reducing(model: Model, rows: Matrix, n_instances: int) -> Indices:
    """Return the rows whose labels lower the variances of all most, one after the other."""
    state, X = model._state(), model._check_test(rows)
    # One matrix for each system, of targets of scale 1.
    covariances = state["_posterior"].latent_covariance(X)
    noise = np.broadcast_to(model._noise_of_labels(state, X), covariances.shape[:2])
    unsure = np.ones(len(covariances[0]))
    if isinstance(model, GPClassifier):
        unsure = 1.0 - np.sum(model.predict_proba(rows) ** 2, axis=1)
    chosen: list[int] = []
    for _ in range(n_instances):
        gain = np.zeros(len(unsure))
        for C, s in zip(covariances, noise, strict=True):
            gain += (unsure @ C**2) / (np.maximum(np.diag(C), 0.0) + s)
        gain[chosen] = -np.inf
        best = int(np.argmax(gain))
        chosen.append(best)
        for C, s in zip(covariances, noise, strict=True):
            C -= np.outer(C[:, best], C[best]) / (max(C[best, best], 0.0) + s[best])
    return np.array(chosen, dtype=np.intp)


def _cost(model: Model, pool: ArrayLike | Matrix, strategy: str) -> Array:
    """Return what is smallest for the row to ask for."""
    X, state = model._check_test(pool), model._state()
    # Of the latent functions: calibrated logits would say how sure, not how well known.
    margin = _margin(model._read(state, "mean", X)) if strategy != "variance" else None
    if strategy == "mean" and margin is not None:
        return margin
    # Of targets of scale 1, so that none of several counts for its unit.
    variances = model._predictive_variance(state, X)
    variance: Array = variances.mean(axis=1)
    return -variance if margin is None else margin / np.sqrt(variance)


def _margin(scores: Array) -> Array:
    """Return how far the first class is before the second."""
    if scores.shape[1] == 1:
        return np.abs(scores[:, 0])
    best = np.partition(scores, -2, axis=1)[:, -2:]
    margin: Array = 0.5 * (best[:, 1] - best[:, 0])
    return margin


def query_strategy(
    strategy: Strategy = "variance-reduction", *, random_state: RandomState = None
) -> Callable[..., tuple[Indices, Any]]:
    """Return `query` in the form that modAL's `ActiveLearner` calls.

    Parameters
    ----------
    strategy : str, default="variance-reduction"
        As for `query`.
    random_state : int, RandomState instance or None, default=None
        As for `query`.

    Returns
    -------
    callable
        ``(learner, X_pool, n_instances=1) -> (indices, X_pool[indices])``, where `learner` is a
        fitted model or has one as its attribute `estimator`.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import GPClassifier, active_learning
    >>> model = GPClassifier(optimizer=None).fit([[1.0], [0.0]], ["left", "right"])
    >>> ask = active_learning.query_strategy("mean")
    >>> indices, rows = ask(model, np.array([[0.9], [0.5]]))
    >>> rows
    array([[0.5]])
    """
    _check_strategy(strategy)
    generator = check_random_state(random_state)

    def ask(learner: Any, X_pool: Any, n_instances: int = 1) -> tuple[Indices, Any]:
        model = getattr(learner, "estimator", learner)
        indices = query(model, X_pool, strategy, n_instances, random_state=generator)
        return indices, X_pool[indices]

    return ask


@dataclass(frozen=True)
class Round:
    """The state of `learn` after a number of labels."""

    labelled: Indices
    """Rows of `X` whose labels have been used, in the order in which they were asked for."""
    model: Model
    """A model fitted on them."""


@numbers_checked
def learn(
    model: Model,
    X: ArrayLike | Matrix,
    oracle: Callable[[Indices], ArrayLike],
    *,
    labelled: ArrayLike,
    n_rounds: int,
    strategy: Strategy = "variance-reduction",
    n_instances: int = 1,
    random_state: RandomState = None,
) -> Iterator[Round]:
    """Ask for labels, fit, and ask again.

    Parameters
    ----------
    model : GPClassifier or GPRegressor
        The model to fit; it is cloned, and stays as it is.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Histograms.
    oracle : callable
        Given indices of rows of `X`, returns their labels or targets; asked once for each row.
    labelled : array-like of int
        Rows to begin with; for a classifier, of two classes at least.
    n_rounds : int
        How often to ask.
    strategy, n_instances, random_state
        As for `query`.

    Yields
    ------
    Round
        The rows labelled so far and a model fitted on them, before the first query and after
        each.

    Raises
    ------
    ValueError
        As `query` and the model do, or if rows to begin with do not exist or repeat.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from histrs.gaussian_process import IntersectionGPClassifier, active_learning
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> rounds = active_learning.learn(
    ...     IntersectionGPClassifier(optimizer=None), X, y.take, labelled=[0, 1], n_rounds=3
    ... )
    >>> [len(r.labelled) for r in rounds]
    [2, 3, 4, 5]
    """
    _check_model(model)
    _check_strategy(strategy, model)
    rows = sparse.csr_array(sound(X)) if sparse.issparse(X) else np.asarray(X)
    known = np.asarray(labelled, dtype=np.intp).ravel()
    if len(np.unique(known)) != len(known) or not np.all((known >= 0) & (known < rows.shape[0])):
        raise ValueError(
            f"labelled = {known.tolist()}: give rows of X, 0 to {rows.shape[0] - 1}, each once."
        )
    generator = check_random_state(random_state)
    labels = np.asarray(oracle(known))
    fitted = clone(model).fit(rows[known], labels)
    yield Round(known, fitted)
    for _ in range(n_rounds):
        pool = np.setdiff1d(np.arange(rows.shape[0]), known)
        chosen = query(fitted, rows[pool], strategy, n_instances, random_state=generator)
        asked = pool[chosen]
        known = np.concatenate([known, asked])
        answers = np.asarray(oracle(asked))
        labels = np.concatenate([labels, answers])
        if model._asked.keeps_hyperparameters:
            fitted = _with_more_rows(fitted, rows[asked], answers)
        else:
            # More labels call for other hyper-parameters.
            fitted = clone(model).fit(rows[known], labels)
        yield Round(known, fitted)


def _with_more_rows(model: Model, X: Matrix, y: NDArray[Any]) -> Model:
    """Return a model with further rows, beside the one without."""
    grown: Model = clone(model)
    grown.__dict__.update(model.__dict__)
    grown.partial_fit(X, y)
    return grown
