"""Weights of classes that are none."""

import numpy as np
import pytest

from histrs.gaussian_process import IntersectionGPClassifier
from histrs.neighbors import MetricKNNClassifier
from histrs.streaming import PCARidgeClassifier
from histrs.svm import BundleSVC, IntersectionSVC

MODELS = [
    BundleSVC,
    IntersectionGPClassifier,
    IntersectionSVC,
    MetricKNNClassifier,
    PCARidgeClassifier,
]


@pytest.mark.parametrize("model_class", MODELS)
@pytest.mark.parametrize(
    "bad", [{0: -1.0}, {1: np.nan}, {1: np.inf}, {0: 0.0, 1: 0.0, 2: 0.0}], ids=str
)
def test_bad_weights_of_classes_are_refused_and_change_nothing(model_class, bad):
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 3)), np.arange(60) % 3
    model = model_class().fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="class_weight"):
        model.set_params(class_weight=bad).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("class_weight", [{0: 0.0}, {0: 2.0, 2: 0.5}, "balanced"], ids=str)
@pytest.mark.parametrize("model_class", MODELS)
def test_good_weights_of_classes_are_taken(model_class, class_weight):
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 3)), np.arange(60) % 3
    assert set(model_class(class_weight=class_weight).fit(X, y).predict(X)) <= {0, 1, 2}
