"""The page that compares the answers of defaults."""

import copy

import numpy as np
import pytest
from sklearn import datasets
from sklearn.linear_model import LinearRegression, LogisticRegression

from benches import quality
from histrs.gaussian_process import IntersectionGPRegressor


@pytest.fixture
def found(monkeypatch):
    monkeypatch.setattr(
        quality, "REGRESSION", {"diabetes": lambda: datasets.load_diabetes(return_X_y=True)}
    )
    monkeypatch.setattr(quality, "CLASSES", {"iris": lambda: datasets.load_iris(return_X_y=True)})
    monkeypatch.setattr(
        quality,
        "REGRESSORS",
        {
            "linear": LinearRegression,
            "additive": lambda: quality._non_negative(IntersectionGPRegressor(optimizer=None)),
        },
    )
    monkeypatch.setattr(
        quality, "CLASSIFIERS", {"logistic": lambda: LogisticRegression(max_iter=1000)}
    )
    monkeypatch.setattr(quality, "MOST_ROWS", 120)
    return quality.measure(2, log=lambda line: None)


def test_scores_are_in_the_units_that_the_page_names(found):
    table = found["regression"]["diabetes"]
    assert table["rows"] == 120
    for run in table["scores"]["linear"]:
        assert 0.4 < run["RMSE"] < 1.5
        assert "coverage" not in run
    for run in table["scores"]["additive"]:
        assert 0.5 < run["coverage"] <= 1.0
    for run in found["classification"]["iris"]["scores"]["logistic"]:
        assert 0.0 < run["log loss"] < 1.0
        assert run["accuracy"] > 0.8
        assert 0.0 <= run["calibration error"] < 0.5


def test_the_page_ranks_and_marks_the_best(found):
    text = quality.page(found)
    line = next(line for line in text.splitlines() if line.startswith("| diabetes"))
    means = [np.mean([s["RMSE"] for s in runs]) for runs in _runs(found)]
    assert line.count("**") == 2
    assert f"**{min(means):.3f}" in line
    assert "| mean rank | | " in text


def test_models_measured_anew_replace_their_scores_alone(found):
    anew = {
        "splits": 2,
        "regression": {"diabetes": {"scores": {"additive": [{"RMSE": 0.0}]}}},
        "classification": {},
    }
    both = quality.merged(copy.deepcopy(found), anew)
    assert both["regression"]["diabetes"]["scores"]["additive"] == [{"RMSE": 0.0}]
    assert both["classification"] == found["classification"]
    with pytest.raises(ValueError, match="give --splits 2"):
        quality.merged(found, {**anew, "splits": 5})


def _runs(found):
    return found["regression"]["diabetes"]["scores"].values()


def test_calibration_error_is_the_gap_between_confidence_and_accuracy():
    P = np.array([[0.95, 0.05]] * 10)
    assert quality._calibration_error(P, np.zeros(10, dtype=int)) == pytest.approx(0.05)
    codes = np.array([0] * 5 + [1] * 5)
    assert quality._calibration_error(P, codes) == pytest.approx(0.45)


def test_what_was_not_run_everywhere_has_no_rank(found):
    found["regression"]["other"] = copy.deepcopy(found["regression"]["diabetes"])
    del found["regression"]["other"]["scores"]["linear"]
    text = quality.page(found)
    (rank,) = (line for line in text.splitlines() if "mean rank" in line and line.count("|") == 5)
    assert rank.endswith("| - | 1.00 |")
    (other,) = (line for line in text.splitlines() if line.startswith("| other"))
    assert "| - |" in other
    assert "| | additive |" in text
