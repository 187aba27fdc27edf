"""What a user says of the search for the largest likelihood, beyond its name."""

from __future__ import annotations

from dataclasses import dataclass

from histrs.gaussian_process._optimizer import OptimizerName


@dataclass(frozen=True)
class LikelihoodSearch:
    """How hyper-parameters of largest marginal likelihood are searched for.

    Parameters
    ----------
    method : {"l-bfgs-b", "nelder-mead"}, default="l-bfgs-b"
        "l-bfgs-b" follows gradients, "nelder-mead" moves a simplex. Both start at the given values.
    n_restarts : int, default=0
        Further searches, from starts drawn between the bounds; the best is kept.
    shared : bool or None, default=None
        Whether all outputs share one noise and one amplitude. None is True for classes, and False
        for targets, each of which then has its own as if it were fitted alone.

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

    method: OptimizerName = "l-bfgs-b"
    n_restarts: int = 0
    shared: bool | None = None

    def check(self) -> None:
        """Refuse what is no search."""
        if self.method not in ("l-bfgs-b", "nelder-mead"):
            raise ValueError(f"method = {self.method!r}: choose 'l-bfgs-b' or 'nelder-mead'.")
        if not 0 <= self.n_restarts <= 10_000:
            raise ValueError(f"n_restarts = {self.n_restarts!r}: it is between 0 and 10,000.")
