"""What a user says of a search, a solver, tables and bounds, beyond their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

SolverName: TypeAlias = Literal["auto", "cg", "cholesky", "coordinate-descent", "greedy-block"]
PreconditionerName: TypeAlias = Literal["auto", "knots", "pivoted-cholesky"] | None
OptimizerName: TypeAlias = Literal["l-bfgs-b", "nelder-mead"]
LogDetName: TypeAlias = Literal["lanczos", "bound"]
VarianceName: TypeAlias = Literal["auto", "exact", "cached", "fine", "coarse", "coarse-quantized"]
Interpolation: TypeAlias = Literal["linear", "nearest"]
LikelihoodName: TypeAlias = Literal["auto", "gaussian", "bernoulli", "softmax"]


@dataclass(frozen=True)
class LikelihoodSearch:
    """Options of the search for the hyper-parameters of largest marginal likelihood.

    Parameters
    ----------
    method : {"l-bfgs-b", "nelder-mead"} or None, default="l-bfgs-b"
        "l-bfgs-b" follows gradients, "nelder-mead" moves a simplex. Both start at the given values.
        None keeps these, as ``optimizer=None`` does.
    n_restarts : int, default=0
        Further searches, from starts drawn between the bounds; the best is kept.
    shared : bool or None, default=None
        Whether all outputs share one noise and one amplitude. None is True for classes, and False
        for targets: each target then has its own, as if it were fitted alone. Without a search, it
        says whether one value is given for all outputs.
    log_det : {"lanczos", "bound"}, default="lanczos"
        The log-determinant, where a system is not factorised: "lanczos" estimates it by stochastic
        Lanczos quadrature. "bound" is the upper bound of Rodner et al. (eq. 23) of the intersection
        kernel, which is looser and has no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import GPRegressor, LikelihoodSearch
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> search = LikelihoodSearch(n_restarts=2)
    >>> model = GPRegressor(optimizer=search, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    method: OptimizerName | None = "l-bfgs-b"
    n_restarts: int = 0
    shared: bool | None = None
    log_det: LogDetName = "lanczos"

    @classmethod
    def of(cls, option: OptimizerOption) -> LikelihoodSearch:
        """Return the search that a parameter `optimizer` asks for, checked."""
        if isinstance(option, LikelihoodSearch):
            search = option
        elif option == "auto" or option == "leave-one-out":
            search = cls()
        else:
            search = cls(option)
        search.check()
        return search

    def check(self) -> None:
        """Refuse what is no search."""
        _check_name("method", self.method, (*get_args(OptimizerName), None))
        _check_name("log_det", self.log_det, get_args(LogDetName))
        _check_number("n_restarts", self.n_restarts, 0, 10_000)


@dataclass(frozen=True)
class Solver:
    """How linear systems are solved.

    Parameters
    ----------
    name : {"auto", "cg", "cholesky", "coordinate-descent", "greedy-block"}, default="auto"
        As the parameter `solver` of a process, which takes a name alone too.
    max_iter : int, default=1000
        Largest number of iterations; if they do not suffice, there is a ConvergenceWarning.
    preconditioner : {"auto", "knots", "pivoted-cholesky"} or None, default="auto"
        For conjugate gradients and the intersection kernel. "knots" approximates the kernel from a
        few values of each column, the knots. The number of iterations then does not grow with the
        number of rows. It suits few columns. "pivoted-cholesky" is a low-rank approximation, for
        many columns. "auto" chooses by the number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import IntersectionGPRegressor, Solver
    >>> X = np.random.default_rng(0).random((100, 3))
    >>> solver = Solver("cg", preconditioner="knots")
    >>> model = IntersectionGPRegressor(solver=solver, random_state=0).fit(X, X[:, 0])
    >>> bool(model.n_iter_[0] > 1)
    True
    """

    name: SolverName = "auto"
    max_iter: int = 1000
    preconditioner: PreconditionerName = "auto"

    @classmethod
    def of(cls, option: SolverName | Solver) -> Solver:
        """Return the solver that a parameter `solver` asks for, checked."""
        solver = option if isinstance(option, Solver) else cls(option)
        solver.check()
        return solver

    def check(self) -> None:
        """Refuse what is no solver."""
        _check_name("solver", self.name, get_args(SolverName))
        _check_number("max_iter", self.max_iter, 1, None)
        names = ("auto", "knots", "pivoted-cholesky", None)
        _check_name("preconditioner", self.preconditioner, names)


@dataclass(frozen=True)
class Bins:
    """The table that predicts in constant time.

    Parameters
    ----------
    n_bins : int
        Cells per column.
    interpolation : {"linear", "nearest"}, default="linear"
        The content of a cell: a line between two training values, or the constant at the nearest of
        `n_bins` evenly spaced values (Rodner et al., section 4.2).

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import Bins, IntersectionGPRegressor
    >>> X = np.random.default_rng(0).random((100, 3))
    >>> model = IntersectionGPRegressor(n_bins=Bins(50, "nearest")).fit(X, X[:, 0])
    >>> bool(model.quantization_error_bound_[0] < 0.1)
    True
    """

    n_bins: int | None
    interpolation: Interpolation = "linear"

    @classmethod
    def of(cls, option: int | Bins | None) -> Bins:
        """Return the table that a parameter `n_bins` asks for, checked; of no cells for none."""
        bins = option if isinstance(option, Bins) else cls(option)
        bins.check()
        return bins

    def check(self) -> None:
        """Refuse what is no table."""
        if self.n_bins is not None:
            _check_number("n_bins", self.n_bins, 2, 65535)
        _check_name("interpolation", self.interpolation, get_args(Interpolation))


@dataclass(frozen=True)
class Fine:
    """The bound above the posterior variance by some eigenvectors (FAPU, Rodner et al., eq. 29).

    Parameters
    ----------
    n_eigenvectors : int, default=2
        Eigenvectors of the kernel matrix: with more, the bound comes nearer.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import Fine, IntersectionGPRegressor
    >>> X = np.random.default_rng(0).random((100, 3))
    >>> near, nearer = (
    ...     IntersectionGPRegressor(variance=Fine(k), random_state=0).fit(X, X[:, 0])
    ...     for k in (1, 9)
    ... )
    >>> stds = [model.predict(X, return_std=True)[1].mean() for model in (near, nearer)]
    >>> bool(stds[1] <= stds[0])
    True
    """

    n_eigenvectors: int = 2

    def check(self) -> None:
        """Refuse what is no bound."""
        _check_number("n_eigenvectors", self.n_eigenvectors, 1, None)


def variance_of(option: VarianceName | Fine) -> tuple[VarianceName, int]:
    """Return the name that a parameter `variance` asks for, and how many eigenvectors."""
    name, fine = ("fine", option) if isinstance(option, Fine) else (option, Fine())
    fine.check()
    return cast(VarianceName, name), fine.n_eigenvectors


OptimizerOption: TypeAlias = (
    Literal["auto", "leave-one-out"] | OptimizerName | LikelihoodSearch | None
)


def _check_name(what: str, given: Any, names: tuple[Any, ...]) -> None:
    if given not in names:
        raise ValueError(f"{what} = {given!r}: choose one of {list(names)}.")


def _check_number(what: str, given: Any, least: int, most: int | None) -> None:
    is_whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not is_whole or given < least or (most is not None and given > most):
        limits = f"of {least} at least" if most is None else f"between {least} and {most:,}"
        raise ValueError(f"{what} = {given!r}: give a whole number {limits}.")
