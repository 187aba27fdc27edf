"""Ridge regression and classification after principal components, from moments."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from histrs._validation import Matrix, unchanged_on_error
from histrs.streaming._linear import LinearModel, MomentRegressor, check_labelled
from histrs.streaming._moments import Moments
from histrs.streaming._path import RidgePath
from histrs.streaming._principal import check_n_components
from histrs.streaming._rows import ROW_CHECKS
from histrs.streaming._sums import Array


class _RidgeOnComponents(LinearModel):
    """What the regressor and the classifier have in common."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "alphas": ["array-like", Interval(Real, 0, None, closed="neither")],
        "selection": [StrOptions({"gcv", "loo"})],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alphas: float | Sequence[float] = (0.1, 1.0, 10.0),
        selection: Literal["gcv", "loo"] = "gcv",
    ) -> None:
        self.n_components = n_components
        self.alphas = alphas
        self.selection = selection

    def _fit_rows(self, X: Any, Y: Array) -> None:
        check_n_components(self.n_components, X.shape[1])
        moments = Moments(X.shape[1], Y.shape[1]).update(X, Y)
        self._fit_path(moments, (X, Y))

    def _fit_path(self, moments: Moments, rows: tuple[Any, Array] | None) -> None:
        """Choose the penalty and set the coefficients; leaving out rows needs the rows."""
        alphas = np.atleast_1d(np.asarray(self.alphas, dtype=np.float64))
        if alphas.ndim != 1 or not alphas.size or not np.all((alphas > 0) & np.isfinite(alphas)):
            raise ValueError(f"alphas = {self.alphas!r}: expected positive penalties.")
        check_labelled(moments)
        self.n_components_ = check_n_components(self.n_components, moments.n_features)
        path = RidgePath.of(moments, self.n_components_)
        if self.selection == "gcv":
            self.errors_ = path.generalized_errors(alphas)
        elif rows is not None:
            self.errors_ = path.leave_one_out_errors(*rows, alphas)
        else:
            raise ValueError('selection="loo" needs the rows: call fit, or choose "gcv".')
        self.alpha_ = float(alphas[np.argmin(self.errors_)])
        self.coef_, self.intercept_ = path.solve(self.alpha_)


class PCARidge(_RidgeOnComponents, MomentRegressor):
    r"""Ridge regression on principal components, from moments, with a path of penalties.

    Algorithm 3 of [1]_: with `U` and :math:`\Lambda` from `StreamingPCA`,

    .. math:: v' = U^T v - \frac{1^T y}{n} U^T m, \qquad w = (\Lambda + \lambda I)^{-1} v',
              \qquad f(z) = (U w)^T (z - m/n) + \bar y,

    the minimiser of :math:`\|y - \bar y - (Z - 1 m^T/n) U w\|^2 + \lambda \|w\|^2`. (The paper
    prints :math:`U^T w` for the coefficients and leaves out the mean of `y`.) One decomposition
    serves all targets and all penalties. Nothing is projected to predict.

    Moments of rows without targets may contribute to the directions, see `fit_moments`.

    Parameters
    ----------
    n_components : int, default=None
        Number of principal components to regress on; None takes as many as there are features,
        which is plain ridge regression.
    alphas : float or array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        Penalties :math:`\lambda > 0` to choose from, as `sklearn.linear_model.Ridge` counts them.
    selection : {"gcv", "loo"}, default="gcv"
        The error that the chosen penalty minimises, as a mean over targets. "gcv" is generalized
        cross-validation, :math:`(|y - Sy|^2/n) / (1 - tr(S)/n)^2`, which needs the moments alone.
        "loo" is the squared error of leaving out a row, with the directions of all rows; it reads
        the rows again.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients of the features.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercepts.
    alpha_ : float
        The chosen penalty.
    errors_ : ndarray of shape (n_alphas,)
        The errors of the penalties.
    n_components_ : int
        Number of components.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, when `X` had string column names.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.streaming import Moments, PCARidge
    >>> Z = np.random.default_rng(0).random((5000, 8))
    >>> y = Z @ np.arange(8) + 3
    >>> model = PCARidge(alphas=[1e-6, 1.0]).fit_moments(Moments.of(Z, y))
    >>> model.coef_.round(3) + 0
    array([0., 1., 2., 3., 4., 5., 6., 7.])
    >>> round(model.intercept_, 3)
    3.0
    """

    def _learn_rows(self, X: Any, Y: Array) -> None:
        self._fit_rows(X, Y)

    def _learn(self, moments: Moments) -> None:
        self._fit_path(moments, None)


class PCARidgeClassifier(ClassifierMixin, _RidgeOnComponents):
    r"""Classification by `PCARidge` on targets of 1 for the class of a row and -1 for others.

    All classes share one decomposition (section 6 of [1]_): the time does not depend on their
    number but for `O(n D c)` to gather :math:`Z^T y`.

    Parameters
    ----------
    n_components : int, default=None
        Number of principal components; None takes as many as there are features.
    alphas : float or array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        Penalties to choose from.
    selection : {"gcv", "loo"}, default="gcv"
        The squared error that the chosen penalty minimises, as in `PCARidge`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    alpha_ : float
        The chosen penalty.
    errors_ : ndarray of shape (n_alphas,)
        The errors of the penalties.
    n_components_ : int
        Number of components.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, when `X` had string column names.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from histrs.streaming import PCARidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PCARidgeClassifier(n_components=40).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.85)
    True
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | Matrix, y: ArrayLike) -> Self:
        """Learn from rows; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            At least two finite rows.
        y : array-like of shape (n_samples,)
            Classes, two or more.

        Returns
        -------
        self : PCARidgeClassifier
            The fitted model.

        Raises
        ------
        ValueError
            If there is one class, `n_components` is larger than the number of features, or the
            data are not as above.
        """
        with unchanged_on_error(self):
            X, y = validate_data(self, X, y, ensure_min_samples=2, **ROW_CHECKS)
            check_classification_targets(y)
            binarizer = LabelBinarizer(pos_label=1, neg_label=-1).fit(y)
            self.classes_ = binarizer.classes_
            self._check_classes()
            self._fit_rows(X, binarizer.transform(y).astype(np.float64))
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_moments(self, moments: Moments, classes: ArrayLike) -> Self:
        """Learn from moments whose targets are 1 for the class of a row and -1 for others.

        Parameters
        ----------
        moments : Moments
            Moments with a target for each class, or one target for the second of two classes.
        classes : array-like of shape (n_classes,)
            The classes, in the order of the targets.

        Returns
        -------
        self : PCARidgeClassifier
            The fitted model.

        Raises
        ------
        ValueError
            If the targets do not fit the classes, or as `PCARidge.fit_moments` raises.
        """
        with unchanged_on_error(self):
            self.classes_ = np.asarray(classes)
            self._check_classes()
            n_classes = len(self.classes_)
            if moments.n_targets != (1 if n_classes == 2 else n_classes):
                raise ValueError(
                    f"the moments have {moments.n_targets} targets for {n_classes} classes: "
                    "one for each is needed, or a single one for two."
                )
            self.n_features_in_ = moments.n_features
            self._fit_path(moments, None)
        return self

    def decision_function(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return the score of each class, or of the second of two.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Predicted targets, which are between -1 and 1 in training.
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            The classes with the largest scores.
        """
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes_[best])

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(self.classes_)} class."
            )
