"""What every estimator of this package shares."""

from __future__ import annotations

import numpy as np
from sklearn import base


class BaseEstimator(base.BaseEstimator):
    """scikit-learn's, whose diagrams in notebooks lead to this package's manual."""

    _doc_link_module = "histrs"
    _doc_link_template = (
        "https://histrs.readthedocs.io/en/latest/reference/generated/"
        "{estimator_module}.{estimator_name}.html"
    )

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        # Names are those of the module of the package, wherever in it a class is written.
        kind = type(self)
        return {
            "estimator_module": ".".join(kind.__module__.split(".")[:2]),
            "estimator_name": kind.__name__,
        }

    def _validate_params(self) -> None:
        # A limit beyond single precision is infinite beside a parameter in it.
        with np.errstate(over="ignore"):
            super()._validate_params()
