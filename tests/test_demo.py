"""The demonstration: its page stands alone and agrees with the terminal; its scores are right."""

import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import datasets
from sklearn.linear_model import LinearRegression, LogisticRegression

import demo.__main__ as command
from demo import figures, measure
from demo import page as pages

VOID = {"br", "meta", "wbr"}
# What would load something, or run.
FORBIDDEN = {"audio", "base", "embed", "iframe", "img", "link", "object", "script", "source"}


class Page(HTMLParser):
    """The elements of a page, its text, and its tables as rows of cells."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.tables, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"th", "td"}:
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text += data
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def named(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def results():
    """Measure once, on fewer tables and rows than users do."""
    of_classes, of_numbers = measure.class_tables(), measure.number_tables(1)
    about, X, y = of_classes["digits"]
    steps, Z, z = of_numbers["Friedman 1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            measure,
            "class_tables",
            lambda: {"digits": (about, X[:400], y[:400]), "iris": of_classes["iris"]},
        )
        patch.setattr(
            measure,
            "number_tables",
            lambda seed: {
                "diabetes": of_numbers["diabetes"],
                "Friedman 1": (steps, Z[:200], z[:200]),
            },
        )
        return measure.run(1, lambda stage: None, n_splits=2)


@pytest.fixture(scope="module")
def text(results):
    return pages.page(results)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


# ---- the page -----------------------------------------------------------------------------------


def test_page_loads_nothing(text, page):
    assert not FORBIDDEN & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert not {"src", "href", "srcset", "xlink:href", "data"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"://|@import|url\(", text)


def test_page_is_accessible(page):
    assert page.named("html") == [{"lang": "en"}]
    assert any(meta.get("name") == "viewport" for meta in page.named("meta"))
    assert len(page.named("h1")) == 1
    assert len(page.named("caption")) == len(page.named("table")) == 4
    pictures = page.named("svg")
    # Reliability diagrams, uncertain images, importances and curves.
    assert len(pictures) == 3 + 10 + 1 + 3
    for picture in pictures:
        assert picture["role"] == "img"
        assert picture["aria-label"]


def test_page_and_terminal_agree(results, text, page):
    printed = pages.terminal(results)
    assert printed.isascii()
    assert max(map(len, printed.splitlines())) <= 80
    shown = {tuple(row) for table in page.tables for row in table}
    for tables, columns in (
        (results.classification, pages.CLASS_COLUMNS),
        (results.regression, pages.NUMBER_COLUMNS),
    ):
        for table in tables:
            for model, row in pages.cells(table, columns):
                words = (model, *(cell for cell, _ in row))
                assert words in shown
                assert re.search(r"\s+".join(map(re.escape, words)), printed), words
    for line in (line for lines in pages.verdicts(results) for line in lines):
        assert line in unescape(text)
        assert line in printed


def test_figures_of_the_page_are_those_of_the_terminal(results, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "elsewhere.md"
    page.write_text(f"before\n{figures.BEGIN}old\n{figures.END}after\n", encoding="utf-8")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    assert figures.write(results) == page
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{figures.BEGIN}| table")
    assert text.endswith(f"|\n{figures.END}after\n")
    won = [line.split(":")[0] for line in pages.verdicts(results)[0]]
    names = [table.name for table in (*results.classification, *results.regression)]
    rows = re.findall(r"^\| (?!table)(\w[^|]*) \|", text, flags=re.MULTILINE)
    assert rows == [name for name in names if name not in won]


# ---- the numbers --------------------------------------------------------------------------------


def test_scores_are_in_their_ranges(results):
    for table in (*results.classification, *results.regression):
        assert set(table.scores) == set(measure.CLASSIFIERS)
        for scores in table.scores.values():
            assert all(len(values) == 2 for values in scores.values())
            assert min(scores["fit"] + scores["predict"]) > 0
    for table in results.regression:
        with_intervals = {model for model in table.scores if "coverage" in table.scores[model]}
        assert with_intervals == {measure.TABULAR, measure.ADDITIVE, measure.BOOSTING}
        assert 0.85 < table.mean(measure.TABULAR, "coverage") <= 1.0
        assert table.mean(measure.TABULAR, "width") > 0
        assert table.mean(measure.FOREST, "coverage") is None


def test_scores_of_a_known_classifier():
    X, y = datasets.load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000)
    scores, P = measure.classify(model, X[::2], y[::2], X[1::2], y[1::2])
    assert scores["error"] == pytest.approx(1 - model.score(X[1::2], y[1::2]))
    expected = -np.log(P[np.arange(75), y[1::2]]).mean()
    assert scores["log loss"] == pytest.approx(expected)


def test_rmse_is_in_deviations_of_the_target():
    X, y = datasets.load_diabetes(return_X_y=True)
    scores = measure.predict_numbers(LinearRegression(), X, y, X, y, 0)
    assert scores["RMSE"] ** 2 == pytest.approx(1 - LinearRegression().fit(X, y).score(X, y))


def test_bins_of_known_probabilities():
    confidence = np.array([0.95, 0.95, 0.6, 1.0])
    right = np.array([True, False, True, True])
    found = measure.reliability_bins(confidence, right)
    assert found == [(1, 0.6, 1.0), (3, pytest.approx(2.9 / 3), pytest.approx(2 / 3))]


def test_uncertain_images_come_first(results):
    assert len(results.uncertain) == measure.N_UNCERTAIN
    X, y = datasets.load_digits(return_X_y=True)
    entropies = []
    for image in results.uncertain:
        np.testing.assert_array_equal(image.pixels.ravel(), X[image.row])
        assert image.label == y[image.row]
        p = np.maximum(image.probabilities, 1e-300)
        entropies.append(-np.sum(p * np.log(p)))
    assert np.all(np.diff(entropies) <= 0)


def test_curves_begin_at_zero_and_have_bands(results):
    assert "bmi" in {curve.name for curve in results.curves}
    for curve in results.curves:
        assert curve.mean[0] == 0
        assert np.all(np.diff(curve.x) > 0)
        assert np.all(curve.std[1:] > 0)


# ---- the command --------------------------------------------------------------------------------


@pytest.fixture
def measured(results, monkeypatch):
    """Let the command find results that are there already."""
    monkeypatch.setattr(measure, "run", lambda *_: results)


def test_command_writes_and_prints(measured, results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command.main([]) == 0
    assert pages.terminal(results) in capsys.readouterr().out
    written = (tmp_path / "histrs-demo.html").read_text(encoding="utf-8")
    assert written == pages.page(results)
    # A page of the demonstration is replaced.
    assert command.main(["--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "-1"], "is not an integer from 0"),
        (["--seed", "one"], "'one' is not an integer from 0"),
        (["--seed", str(2**32)], "is not an integer from 0"),
        (["--output", "absent/page.html"], "there is no directory absent; make it first"),
        (["--output", "."], "is a directory; name a file"),
    ],
)
def test_bad_arguments(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_other_files_are_not_replaced(tmp_path, capsys):
    output = tmp_path / "page.html"
    output.write_text("<!DOCTYPE html><title>mine</title>")
    with pytest.raises(SystemExit) as stop:
        command.main(["--output", str(output)])
    assert stop.value.code == 2
    assert "is another file than a page of the demo; name a new one" in capsys.readouterr().err
    assert output.read_text() == "<!DOCTYPE html><title>mine</title>"


def test_ctrl_c(tmp_path, monkeypatch, capsys):
    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "run", interrupt)
    assert command.main(["--output", str(tmp_path / "page.html")]) == 130
    assert "interrupted" in capsys.readouterr().err
