"""How columns of a frame become what a model reads."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

# Categories that get a column each; the rest of a column shares one.
_MOST_INDICATORS = 100
_DAY = pd.Timedelta(days=1)


def words(X: pd.DataFrame) -> list[str]:
    """Return the names of columns of categories."""
    return [c for c in X if isinstance(X[c].dtype, pd.CategoricalDtype)]


def dates_as_numbers(X: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with days since 1970 for dates."""
    dates = X.select_dtypes("datetime").columns
    epoch = pd.Timestamp(0)
    return X.assign(**{c: (X[c] - epoch) / _DAY for c in dates})


def filled_words(X: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with strings for categories, "missing" where there is none."""
    return X.assign(**{c: X[c].astype(object).fillna("missing") for c in words(X)})


def indicators(*, scale: bool = True) -> Any:
    """Return what makes a matrix: medians for gaps, categories as indicators, a spread of 1."""
    names = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            max_categories=_MOST_INDICATORS,
            sparse_output=False,
        ),
    )
    numbers = SimpleImputer(strategy="median", keep_empty_features=True)
    columns = make_column_transformer(
        (names, make_column_selector(dtype_include="category")), remainder=numbers
    )
    steps = [FunctionTransformer(_plain), columns]
    return make_pipeline(*steps, StandardScaler()) if scale else make_pipeline(*steps)


def _plain(X: pd.DataFrame) -> pd.DataFrame:
    """Return numbers in double precision, and categories that may be filled."""
    X = dates_as_numbers(X)
    numbers = {c: X[c].astype(np.float64) for c in X.columns.difference(words(X))}
    more = {
        c: X[c].cat.add_categories("missing") if "missing" not in X[c].cat.categories else X[c]
        for c in words(X)
    }
    return X.assign(**numbers, **more)
