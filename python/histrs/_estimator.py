"""What every estimator of this package shares."""

from sklearn import base


class BaseEstimator(base.BaseEstimator):
    """scikit-learn's, whose diagrams in notebooks lead to this package's manual."""

    _doc_link_module = "histrs"
    _doc_link_template = (
        "https://histrs.readthedocs.io/en/latest/reference/generated/"
        "{estimator_module}.{estimator_name}.html"
    )
