"""What the classifier and the regressor share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._dask import is_dask
from histrs._row_weights import RowWeights
from histrs._solvers.block_cg import Array
from histrs._validation import (
    HISTOGRAM_CHECKS,
    Matrix,
    canonical,
    count_threads,
    naming_rows,
    to_core,
    validate_data,
    validate_fit,
)
from histrs.gaussian_process._distributed.arrays import (
    check_entries,
    refuse_distributed,
    rows_to_fit,
    rows_to_predict,
)
from histrs.gaussian_process._explanation import Explanation, explain
from histrs.gaussian_process._hyperparameters import (
    Hyperparameters,
)
from histrs.gaussian_process._interactions.choice import (
    Interactions,
)
from histrs.gaussian_process._interactions.functions import PairFunction, pair_functions
from histrs.gaussian_process._interactions.kernel import PairKernel
from histrs.gaussian_process._kernel import (
    GeneralizedKernel,
)
from histrs.gaussian_process._kernel_learning import LearnedKernel
from histrs.gaussian_process._options import Bins, variance_of
from histrs.gaussian_process._posterior import Posterior
from histrs.gaussian_process._shape_functions import (
    ShapeFunction,
    rows_of_one_feature,
    training_values,
)
from histrs.gaussian_process._smooth.functions import (
    feature_function,
    feature_variance,
    points_of,
)
from histrs.gaussian_process._support import refuse_bins
from histrs.gaussian_process._tables import AdditiveTables, tables_of


class BaseIntersectionGP(LearnedKernel):
    """Exact Gaussian process regression of one or more targets on shared inputs."""

    _predicted: ClassVar[str]
    """The readout that predictions are made of."""

    # ---- rows --------------------------------------------------------------------------------

    def _rows_to_fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, *, reset: bool = True, **checks: Any
    ) -> tuple[Matrix, NDArray[Any]]:
        if is_dask(X):
            return rows_to_fit(self, X, y, reset=reset, **checks)
        X, y = validate_fit(self, X, y, reset=reset, **checks)
        return canonical(X), y

    def _rows_with_weight(
        self, given: RowWeights, rows: tuple[Any, ...], checked: tuple[Any, ...], **checks: Any
    ) -> tuple[Any, ...]:
        kept = super()._rows_with_weight(given, rows, checked, **checks)
        # The core would name them by their place among distinct ones with a weight.
        if given.kept is not None:
            with naming_rows(given.kept):
                self._check_histograms(kept[0])
        elif not is_dask(kept[0]):
            self._check_histograms(kept[0])
        return kept

    def _check_histograms(self, X: Matrix) -> None:
        """Refuse entries that are no histograms'."""
        if is_dask(X):
            check_entries(X)
            return
        _histrs.check_histograms(to_core(X), count_threads(self.n_jobs))

    def _check_test(self, X: ArrayLike | Matrix) -> Matrix:
        check_is_fitted(self)
        if is_dask(X) and is_dask(getattr(self, "X_fit_", None)):
            lazy: Matrix = rows_to_predict(self, X)
            return lazy
        return canonical(validate_data(self, X, reset=False, **HISTOGRAM_CHECKS))

    def _check_rows_of_means(self, X: ArrayLike | Matrix) -> Matrix:
        # Tables take bytes as they are.
        is_of_bytes = isinstance(X, np.ndarray) and X.dtype == np.uint8
        if Bins.of(self.n_bins).n_bins is None or not is_of_bytes:
            return self._check_test(X)
        check_is_fitted(self)
        checks = {**HISTOGRAM_CHECKS, "dtype": np.uint8}
        rows: Matrix = validate_data(self, X, reset=False, **checks)
        return rows

    # ---- prediction --------------------------------------------------------------------------

    def _hyperparameters(self, state: dict[str, Any]) -> Hyperparameters:
        weights = None if np.all(state["feature_weights_"] == 1.0) else state["feature_weights_"]
        kernel = GeneralizedKernel(
            state["feature_transform_"],
            state["exponent_"],
            weights,
            intercept_variance=state["intercept_variance_"],
        )
        if len(state.get("interactions_", ())) > 0:
            knots, covariances = state["interaction_knots_"], state["_knot_covariances"]
            pairs = PairKernel(state["interactions_"], tuple(knots), tuple(covariances))
            kernel = replace(kernel, pairs=pairs, interaction_weight=state["interaction_weight_"])
        if (smoothness := state.get("smoothness_", "linear")) != "linear":
            kernel = replace(
                kernel,
                smoothness=smoothness,
                slope_weight=state["slope_weight_"],
                rough_weight=state["rough_weight_"],
            )
        noise, amplitude = (np.atleast_1d(state[name]) for name in ("noise_", "amplitude_"))
        return Hyperparameters(noise, amplitude, kernel)

    def _posterior_of(self, state: dict[str, Any]) -> Posterior:
        values = self._hyperparameters(state)
        first, *others = values.scales()
        system = self._make_system(state["X_fit_"], values.kernel, first, None)
        systems = (system, *(system.with_scales(scales) for scales in others))
        return Posterior(systems, state["_standard_weights"], self._readouts(state), self.tol)

    def _read(self, state: dict[str, Any], name: str, X: Matrix) -> Array:
        """Return a readout of the posterior mean, from a table where there are bins."""
        posterior: Posterior = state["_posterior"]
        if posterior.system.kernel.is_smooth:
            refuse_bins(self)
        bins = Bins.of(self.n_bins)
        return posterior.read(name, X, count_threads(self.n_jobs), bins.n_bins, bins.interpolation)

    def _latent_variance(self, state: dict[str, Any], X: Matrix) -> Array:
        """Return the posterior variance of latent functions of standardised targets."""
        posterior: Posterior = state["_posterior"]
        name, n_eigenvectors = variance_of(self.variance)
        return posterior.latent_variance(X, name, Bins.of(self.n_bins).n_bins, n_eigenvectors)

    @property
    def std_error_(self) -> float:
        """Mean relative error of the standard deviations that come from cached directions.

        It is measured on training rows that are solved exactly, each by a fit without it; 0 where
        all standard deviations are exact.
        """
        posterior: Posterior = self._state()["_posterior"]
        ks = range(len(posterior.systems))
        cached = [
            k
            for k in ks
            if self.variance == "cached"
            or (self.variance == "auto" and not posterior.has_exact_variance(k))
        ]
        if cached:
            return max(posterior.cached_variance(k).error for k in cached)
        if self.variance in ("auto", "exact"):
            return 0.0
        raise AttributeError(f"std_error_ is not measured with variance={self.variance!r}.")

    @property
    def intercept_(self) -> Array:
        """What is predicted where no feature and no pair of features adds anything."""
        posterior: Posterior = self._state()["_posterior"]
        return np.broadcast_to(posterior.intercept("mean"), posterior.weights.shape[1:]).copy()

    @property
    def quantization_error_bound_(self) -> Array:
        """What no number from the table of `n_bins` cells is off by more than."""
        if Bins.of(self.n_bins).n_bins is None or not self.__sklearn_is_fitted__():
            raise AttributeError(
                "quantization_error_bound_ is there after a fit, and with n_bins: predictions are "
                "exact without."
            )
        posterior: Posterior = self._answering()["_posterior"]
        bins = Bins.of(self.n_bins)
        return posterior.score(self._predicted, bins.n_bins, bins.interpolation).error_bound()

    # ---- what features add -------------------------------------------------------------------

    def explain(self, X: ArrayLike | Matrix) -> Explanation:
        r"""Take the posterior mean of rows apart by feature, and by pair of features.

        The mean of a row is the offset plus the sum of one number for each feature, which depends
        on that feature alone: :math:`f_d(x(d))` of `shape_functions`; and of one for each pair of
        `interactions_`, that of `pair_functions`. For a classifier it is that
        of the targets +1 and -1 (`latent_mean_and_variance`).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        explanation : Explanation
            Named tuple ``(names, data, values, std, offset, pairs)``. The standard deviations are
            exact, and take a solve for each entry.
        """
        refuse_distributed(self, "explain")
        X, state = self._check_test(X), self._state()
        names = state.get("feature_names_in_")
        if names is None:
            names = np.array([f"x{d}" for d in range(X.shape[1])], dtype=object)
        return explain(state["_posterior"], X, names, self._units(), count_threads(self.n_jobs))

    def export_tables(self, n_bins: int = 256) -> AdditiveTables:
        """Return what predicts means, or calibrated probabilities, as plain tables.

        The tables can be kept as arrays, evaluated in a few lines of any language, and served as an
        ONNX model (`AdditiveTables.to_onnx`), without this package.

        Parameters
        ----------
        n_bins : int, default=256
            At most so many nodes per feature, 2 at least. Where a feature has no more distinct
            values in training, the tables are exact; elsewhere, `error_bound` is certified.

        Returns
        -------
        tables : AdditiveTables
            Nodes, values and slopes of a piecewise linear function for each feature, and the grid
            of each pair, which is exact.

        Raises
        ------
        TypeError, ValueError
            If `n_bins` is no integer, or less than 2; if features are transformed, between whose
            values functions are not linear; or if probabilities need variances, with
            ``calibration=None``.

        Examples
        --------
        >>> import numpy as np
        >>> from histrs.gaussian_process import IntersectionGPRegressor
        >>> X = np.random.default_rng(0).random((100, 3))
        >>> model = IntersectionGPRegressor().fit(X, X[:, 0] ** 2 + X[:, 1])
        >>> tables = model.export_tables()
        >>> bool(np.allclose(tables.scores(X)[:, 0], model.predict(X)))
        True
        """
        refuse_distributed(self, "export_tables")
        state = self._answering()
        n_bins = check_scalar(n_bins, "n_bins", Integral, min_val=2)
        if state.get("smoothness_", "linear") != "linear":
            raise ValueError(
                "Tables are of piecewise linear functions, and those of Splines are smooth: fit "
                "with Intersection()."
            )
        if state["feature_transform_"] != "identity":
            raise ValueError(
                f"Intersection(transform={state['feature_transform_']!r}): tables are exact "
                'between their nodes for "identity" alone. Transform features before the fit.'
            )
        classes = state.get("classes_")
        if classes is not None and getattr(self, "calibration", None) is None:
            raise ValueError(
                "calibration=None: probabilities need the variance of each row, which is no sum "
                'over features. Fit with calibration="leave-one-out".'
            )
        posterior: Posterior = state["_posterior"]
        n_threads = count_threads(self.n_jobs)
        return tables_of(posterior, self._predicted, n_bins, classes, n_threads)

    def shape_functions(
        self,
        features: Sequence[int] | None = None,
        *,
        max_knots: int | None = None,
        return_std: bool = False,
    ) -> list[ShapeFunction]:
        r"""Return what each feature adds to the posterior mean.

        The mean is `intercept_` :math:`+ \sum_d f_d(x(d))`, plus what pairs of features add
        (`pair_functions`) where there are some, with
        :math:`f_d(t) = \mathrm{amplitude}\, w_d \sum_i \alpha_i \min(g(x_i(d)), g(t))`. Between
        neighbouring training values, `f_d` is linear in `g(t)`, so linear where
        `transform` is "identity"; it is 0 at 0, and constant above the largest training value.
        Those of `Splines` have a mean of 0 over the training rows, and are lines beyond the least
        and the largest training value.

        Parameters
        ----------
        features : sequence of int, default=None
            Indices of the features; None takes all.
        max_knots : int or None, default=None
            At most so many of the values of a feature; None takes every one, with which the
            function is exact everywhere. Smooth functions are given at so many values, 200 by
            default, evenly spaced from the least to the largest.
        return_std : bool, default=False
            Whether to compute the posterior standard deviation of each function too, which takes a
            solve for each knot. It is exact.

        Returns
        -------
        functions : list of ShapeFunction
            Named tuples ``(feature, knots, values, std)``; `std` is None unless it was asked for.
        """
        refuse_distributed(self, "shape_functions")
        state = self._state()
        posterior: Posterior = state["_posterior"]
        n_threads = count_threads(self.n_jobs)
        n_features = state["n_features_in_"]
        chosen = range(n_features) if features is None else features
        functions = []
        for feature in chosen:
            if not 0 <= feature < n_features:
                raise ValueError(f"feature {feature} is not in 0..{n_features}.")
            term = posterior.feature_term(feature)
            if term is not None:
                knots = points_of(term, posterior, feature, max_knots)
                values = feature_function(posterior, term, "mean", feature, knots)
                values = values[:, 0] if values.shape[1] == 1 else values
                std = None
                if return_std:
                    variance = feature_variance(posterior, term, feature, knots)
                    std = self._spread(state, np.sqrt(variance))
                functions.append(ShapeFunction(feature, knots, values, std))
                continue
            knots = training_values(posterior.system.X, feature, max_knots)
            rows = rows_of_one_feature(knots, feature, n_features)
            values = posterior.read_features("mean", rows, n_threads)
            values = values[:, 0] if values.shape[1] == 1 else values
            std = None
            if return_std:
                std = self._spread(state, np.sqrt(posterior.feature_variance(rows)))
            functions.append(ShapeFunction(feature, knots, values, std))
        return functions

    def pair_functions(
        self, pairs: Interactions | None = None, *, return_std: bool = False
    ) -> list[PairFunction]:
        r"""Return what pairs of features add to the posterior mean, beside `shape_functions`.

        The mean is `intercept_` :math:`+ \sum_d f_d(x(d)) + \sum_{(i, j)} f_{ij}(x(i), x(j))`.
        A pair's function is bilinear between its knots, and constant
        beyond them. Its mean over the training values of either feature is 0, whatever the other
        one is, so that it holds no main effect of them as if they were independent; where they are
        not, what they add together over the rows may have one.

        Parameters
        ----------
        pairs : sequence of pairs of int or str, default=None
            Which of `interactions_`; None takes all.
        return_std : bool, default=False
            Whether to compute the posterior standard deviation of each function too, which takes a
            solve for each pair of knots. It is exact.

        Returns
        -------
        functions : list of PairFunction
            Named tuples ``(features, knots, values, std)``; `std` is None unless it was asked for.

        Raises
        ------
        ValueError
            If the model has no such pair.

        Examples
        --------
        >>> import numpy as np
        >>> from histrs.gaussian_process import IntersectionGPRegressor
        >>> X = np.random.default_rng(0).random((300, 4))
        >>> from histrs.gaussian_process.kernels import Interactions, Intersection
        >>> y = X[:, 3] * X[:, 1] + X[:, 0]
        >>> model = IntersectionGPRegressor(Intersection() + Interactions(1)).fit(X, y)
        >>> (function,) = model.pair_functions()
        >>> function.features, function.values.shape
        ((1, 3), (12, 12))
        """
        state = self._state()
        spread = partial(self._spread, state)
        return pair_functions(state, pairs, spread if return_std else None)
