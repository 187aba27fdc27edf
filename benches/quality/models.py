"""Models as their users run them: defaults, on one thread, from frames to answers."""

import importlib.util
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import BayesianRidge, LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR

from benches.quality import mgcv
from benches.quality.answers import LEVELS, Answer, Answers
from benches.quality.columns import dates_as_numbers, filled_words, indicators, words
from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    TabularGPClassifier,
    TabularGPRegressor,
)
from histrs.gaussian_process._tabular.members import MemberName

# What a support vector machine is tuned over, by five folds.
_GRID = {"C": [0.3, 3.0, 30.0, 300.0], "gamma": [0.01, 0.1, "scale"]}
# Categories that HistGradientBoosting takes.
_MOST_CATEGORIES = 255


Family = Literal["others", "additive", "additive alone"]


class Model(NamedTuple):
    """A model of the page."""

    name: str
    fit: Callable[[pd.DataFrame, NDArray[Any], bool], Answers]
    """Fits rows, targets, and whether these are classes; returns what answers."""
    package: str
    needs: Callable[[], str] = lambda: ""
    """What is missing here to run it, in words; nothing where all is there."""
    most_rows: int = 10**9
    least_rows: int = 0
    classes: bool = True
    most_classes: int = 10**9
    ours: bool = False
    takes_gaps: bool = False
    """Whether rows to predict may lack values that training rows had."""
    deep: bool = False
    slow: bool = False
    """Whether it takes minutes: it gets the first splits alone, and held tables above 200 rows."""
    family: Family = "others"
    """On which pages it is: models of the family "additive" are on both."""

    @property
    def version(self) -> str:
        """What it was run with, or nothing where that is not installed."""
        try:
            return mgcv.version() if self.package == "mgcv" else version(self.package)
        except PackageNotFoundError:
            return ""


def _classify(model: Any, X: Any, y: NDArray[Any]) -> Answers:
    model.fit(X, y)
    return lambda X: Answer(P=model.predict_proba(X))


def _regress(model: Any, X: Any, y: NDArray[Any]) -> Answers:
    model.fit(X, y)
    return lambda X: Answer(mean=model.predict(X))


def _tabular(
    X: pd.DataFrame,
    y: NDArray[Any],
    has_classes: bool,
    members: Literal["auto"] | Sequence[MemberName] = "auto",
) -> Answers:
    of_both: dict[str, Any] = {"members": members, "n_jobs": 1, "random_state": 0}
    if has_classes:
        return _classify(TabularGPClassifier(**of_both), X, y)
    model = TabularGPRegressor(**of_both).fit(X, y)

    def answer(X: pd.DataFrame) -> Answer:
        mean, std = model.predict(X, return_std=True)
        quantiles = model.predict(X, return_quantiles=LEVELS)[1]
        return Answer(None, mean, std, quantiles, lambda y: model.score_density(X, y))

    return answer


def _intersection(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    columns = make_pipeline(indicators(scale=False), MinMaxScaler(clip=True))
    Z = columns.fit_transform(X)
    if has_classes:
        model = IntersectionGPClassifier(n_jobs=1, random_state=0).fit(Z, y)
        return lambda X: Answer(P=model.predict_proba(columns.transform(X)))
    regressor = IntersectionGPRegressor(n_jobs=1, random_state=0).fit(Z, y)

    def answer(X: pd.DataFrame) -> Answer:
        mean, std = regressor.predict(columns.transform(X), return_std=True)
        return Answer(mean=mean, std=std)

    return answer


def _catboost(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    from catboost import CatBoostClassifier, CatBoostRegressor

    def read(X: pd.DataFrame) -> pd.DataFrame:
        return filled_words(dates_as_numbers(X))

    kind = CatBoostClassifier if has_classes else CatBoostRegressor
    model = kind(
        cat_features=words(X),
        random_seed=0,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    model.fit(read(X), y)
    if has_classes:
        return lambda X: Answer(P=model.predict_proba(read(X)))
    return lambda X: Answer(mean=model.predict(read(X)))


def _lightgbm(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMClassifier if has_classes else LGBMRegressor
    model = kind(verbose=-1, n_jobs=1, random_state=0)
    answers = (_classify if has_classes else _regress)(model, dates_as_numbers(X), y)
    return lambda X: answers(dates_as_numbers(X))


def _boosting(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    settings = {"categorical_features": "from_dtype", "random_state": 0}
    if has_classes:
        return _classify(_few_categories(X, HistGradientBoostingClassifier(**settings)), X, y)
    return _regress(_few_categories(X, HistGradientBoostingRegressor(**settings)), X, y)


def _few_categories(X: pd.DataFrame, model: Any) -> Any:
    """Return the model on what it takes; words of too many kinds become their numbers."""
    from sklearn.preprocessing import FunctionTransformer

    many = [c for c in words(X) if X[c].cat.categories.size > _MOST_CATEGORIES]

    def read(X: pd.DataFrame) -> pd.DataFrame:
        codes = {c: X[c].cat.codes.replace(-1, np.nan).astype(float) for c in many}
        return dates_as_numbers(X).assign(**codes)

    return make_pipeline(FunctionTransformer(read), model)


def _quantile_boosting(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    models = []
    for level in LEVELS:
        boosting = HistGradientBoostingRegressor(
            loss="quantile", quantile=level, categorical_features="from_dtype", random_state=0
        )
        models.append(_few_categories(X, boosting).fit(X, y))
    # Quantiles that cross are put in order.
    return lambda X: Answer(quantiles=np.sort([m.predict(X) for m in models], axis=0).T)


def _forest(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    forest = RandomForestClassifier if has_classes else RandomForestRegressor
    model = make_pipeline(indicators(), forest(random_state=0, n_jobs=1))
    return (_classify if has_classes else _regress)(model, X, y)


def _explainable(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingClassifier if has_classes else ExplainableBoostingRegressor
    model = kind(random_state=0, n_jobs=1)
    answers = (_classify if has_classes else _regress)(model, _as_text(X), y)
    return lambda X: answers(_as_text(X))


def _as_text(X: pd.DataFrame) -> pd.DataFrame:
    """Return words as text, which an explainable boosting machine reads."""
    X = dates_as_numbers(X)
    return X.assign(**{c: X[c].astype(object).where(X[c].notna(), None) for c in words(X)})


def _natural_gradients(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    from ngboost import NGBClassifier, NGBRegressor
    from ngboost.distns import k_categorical

    columns = indicators()
    Z = columns.fit_transform(X)
    if has_classes:
        dist = k_categorical(int(y.max()) + 1)
        model = NGBClassifier(Dist=dist, verbose=False, random_state=0).fit(Z, y)
        return lambda X: Answer(P=model.predict_proba(columns.transform(X)))
    model = NGBRegressor(verbose=False, random_state=0).fit(Z, y.astype(float))

    def answer(X: pd.DataFrame) -> Answer:
        found = model.pred_dist(columns.transform(X))
        return Answer(mean=found.loc, std=found.scale)

    return answer


def _machine(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    if has_classes:
        tuned: Any = CalibratedClassifierCV(GridSearchCV(SVC(), _GRID), ensemble=False)
    else:
        tuned = TransformedTargetRegressor(GridSearchCV(SVR(), _GRID), transformer=StandardScaler())
    return (_classify if has_classes else _regress)(make_pipeline(indicators(), tuned), X, y)


def _linear(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    if has_classes:
        model: Any = LogisticRegressionCV(scoring="neg_log_loss", max_iter=500)
        return _classify(make_pipeline(indicators(), model), X, y)
    return _regress(make_pipeline(indicators(), RidgeCV(np.logspace(-4, 4, 17))), X, y)


def _bayesian(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    model = make_pipeline(indicators(), BayesianRidge()).fit(X, y)

    def answer(X: pd.DataFrame) -> Answer:
        mean, std = model.predict(X, return_std=True)
        return Answer(mean=mean, std=std)

    return answer


def _deep(name: str) -> Any:
    def fit(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
        import pytabkit

        model = getattr(pytabkit, name + ("_Classifier" if has_classes else "_Regressor"))
        settings = {"device": "cpu", "random_state": 0, "n_cv": 1, "n_threads": 1}
        X = dates_as_numbers(X)
        # It takes no number that is missing.
        medians = X.drop(columns=words(X)).median()
        answers = (_classify if has_classes else _regress)(model(**settings), X.fillna(medians), y)
        return lambda X: answers(dates_as_numbers(X).fillna(medians))

    return fit


def _package(name: str, command: str = "") -> Callable[[], str]:
    """Return what says that a package is missing, and how to get it."""

    def needs() -> str:
        if importlib.util.find_spec(name) is None:
            return command or f"pip install {name}"
        return ""

    return needs


def _mgcv_needs() -> str:
    return "" if mgcv.version() else "Rscript with mgcv: apt install r-cran-mgcv"


MODELS = [
    Model("TabularGP", _tabular, "histrs", ours=True, takes_gaps=True),
    Model("IntersectionGP", _intersection, "histrs", ours=True, takes_gaps=True, family="additive"),
    Model("CatBoost", _catboost, "catboost", _package("catboost"), takes_gaps=True),
    Model("LightGBM", _lightgbm, "lightgbm", _package("lightgbm"), takes_gaps=True),
    Model("HistGradientBoosting", _boosting, "scikit-learn", takes_gaps=True),
    Model("random forest", _forest, "scikit-learn", takes_gaps=True),
    Model(
        "EBM",
        _explainable,
        "interpret-core",
        _package("interpret", "pip install interpret-core"),
        10_000,
        takes_gaps=True,
        slow=True,
        family="additive",
    ),
    Model(
        "NGBoost",
        _natural_gradients,
        "ngboost",
        _package("ngboost", "pip install lifelines sympy; pip install --no-deps ngboost"),
        takes_gaps=True,
        slow=True,
    ),
    Model("quantile boosting", _quantile_boosting, "scikit-learn", classes=False, takes_gaps=True),
    Model("linear, tuned", _linear, "scikit-learn", takes_gaps=True, family="additive"),
    Model(
        "BayesianRidge", _bayesian, "scikit-learn", classes=False, most_rows=1000, takes_gaps=True
    ),
    Model("SVM, tuned", _machine, "scikit-learn", most_rows=3000, takes_gaps=True, slow=True),
    Model("mgcv", mgcv.fit, "mgcv", _mgcv_needs, most_classes=2, slow=True, family="additive"),
    Model(
        "RealMLP",
        _deep("RealMLP_TD"),
        "pytabkit",
        _package("pytabkit"),
        10_000,
        deep=True,
        slow=True,
    ),
    Model("xRFM", _deep("XRFM_D"), "pytabkit", _package("pytabkit"), 10_000, deep=True, slow=True),
    Model(
        "TabularGP, levels",
        partial(_tabular, members=["levels"]),
        "histrs",
        least_rows=1000,
        ours=True,
        family="additive alone",
    ),
]
