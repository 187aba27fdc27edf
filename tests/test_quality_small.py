"""The page that compares the answers of defaults."""

import copy
import json

import numpy as np
import pytest
from sklearn import datasets
from sklearn.linear_model import LinearRegression, LogisticRegression

from benches import quality_small as quality
from histrs.gaussian_process import IntersectionGPRegressor


@pytest.fixture
def found(monkeypatch, tmp_path):
    monkeypatch.setattr(quality, "RESULTS", tmp_path / "quality.json")
    monkeypatch.setattr(
        quality, "REGRESSION", {"diabetes": lambda: datasets.load_diabetes(return_X_y=True)}
    )
    monkeypatch.setattr(quality, "CLASSES", {"iris": lambda: datasets.load_iris(return_X_y=True)})
    monkeypatch.setattr(
        quality,
        "REGRESSORS",
        {
            "linear": LinearRegression,
            "additive": lambda: quality._non_negative(
                IntersectionGPRegressor(optimizer=None, random_state=0)
            ),
        },
    )
    monkeypatch.setattr(
        quality, "CLASSIFIERS", {"logistic": lambda: LogisticRegression(max_iter=1000)}
    )
    monkeypatch.setattr(quality, "MOST_ROWS", 120)
    found = quality.kept(None)
    quality.measure(found, 2, log=lambda line: None)
    return found


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


def test_a_run_goes_on_with_what_is_missing(found, monkeypatch):
    assert quality.kept(None) == json.loads(json.dumps(found))
    assert quality.kept([]) == {"regression": {}, "classification": {}}
    again = quality.kept(["linear"])
    assert list(again["regression"]["diabetes"]["scores"]) == ["additive"]
    assert again["classification"] == found["classification"]
    monkeypatch.setattr(
        quality, "REGRESSORS", {"linear": LinearRegression, "additive": lambda: None}
    )
    quality.measure(again, 2, log=lambda line: None)
    scores = again["regression"]["diabetes"]["scores"]
    assert scores["additive"] == found["regression"]["diabetes"]["scores"]["additive"]
    expected = [run["RMSE"] for run in found["regression"]["diabetes"]["scores"]["linear"]]
    assert [run["RMSE"] for run in scores["linear"]] == pytest.approx(expected)


def test_the_page_has_the_times_of_what_was_run_everywhere(found):
    text = quality.page(found)
    assert "over 2 random splits" in text
    times = text[text.index("## Time") :]
    assert "| linear | " in times
    found["regression"]["diabetes"]["scores"]["linear"].pop()
    assert "over 1 to 2 random splits" in quality.page(found)


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
