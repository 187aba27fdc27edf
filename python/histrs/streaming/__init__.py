"""Learning from moments (sufficient statistics): linear models of data larger than memory."""

from histrs.streaming._digest import digest
from histrs.streaming._lasso import MomentGroupLasso, MomentLasso
from histrs.streaming._lasso_cv import MomentLassoCV
from histrs.streaming._moments import Moments
from histrs.streaming._pca import StreamingPCA
from histrs.streaming._ridge import PCARidge
from histrs.streaming._ridge_classifier import PCARidgeClassifier
from histrs.streaming._tables import Table

__all__ = [
    "MomentGroupLasso",
    "MomentLasso",
    "MomentLassoCV",
    "Moments",
    "PCARidge",
    "PCARidgeClassifier",
    "StreamingPCA",
    "Table",
    "digest",
]
