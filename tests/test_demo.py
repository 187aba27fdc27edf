"""`histrs demo`: the page stands alone, says what the terminal says, and the numbers are right."""

import contextlib
import io
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from histrs import __version__, _cli, _demo
from histrs._demo import _costs, _data, _experiment, _learning, _models, _scores, _tables
from histrs.gaussian_process import IntersectionGPClassifier
from tests.helpers import PLAIN, ROOT

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
def run(tmp_path_factory):
    """Run the command once, with fewer candidates and runs than it has for users."""
    output = tmp_path_factory.mktemp("demo") / "page.html"
    found = []
    printed = io.StringIO()

    def run_and_keep(*arguments):
        found.append(_experiment.run_experiment(*arguments))
        return found[-1]

    measure_peaks = _costs.measure_peaks

    def measure_first_peak(tasks, data):
        # Each is a process that imports everything.
        return [*measure_peaks(tasks[:1], data), *[None for _ in tasks[1:]]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_costs, "REPEATS", 1)
        patch.setattr(_costs, "measure_peaks", measure_first_peak)
        patch.setitem(_models.GRIDS, _models.GP, {"noise": [0.1, 0.2], "amplitude": [3e-4, 1e-3]})
        patch.setitem(_models.GRIDS, _models.LINEAR, {"C": [1.0]})
        patch.setattr(_demo, "run_experiment", run_and_keep)
        with contextlib.redirect_stdout(printed):
            assert _cli.main(["demo", "--output", str(output), "--seed", "1"]) == 0
    return found[0], output.read_text(encoding="utf-8"), printed.getvalue()


@pytest.fixture(scope="module")
def experiment(run):
    return run[0]


@pytest.fixture(scope="module")
def page(run):
    return Page(run[1])


# ---- the page -----------------------------------------------------------------------------------


def test_page_loads_nothing(run, page):
    assert not FORBIDDEN & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert not {"src", "href", "srcset", "xlink:href", "data"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"://|@import|url\(", run[1])


def test_page_is_accessible(page):
    assert page.named("html") == [{"lang": "en"}]
    assert any(meta.get("name") == "viewport" for meta in page.named("meta"))
    assert len(page.named("h1")) == 1
    assert len(page.named("caption")) == len(page.named("table")) > 0
    pictures = page.named("svg")
    assert len(pictures) == 10 + 2 + 10
    for picture in pictures:
        assert picture["role"] == "img"
        assert picture["aria-label"]


def test_page_and_terminal_agree(run, experiment, page):
    printed = run[2]
    assert printed.isascii()
    shown = {tuple(cell for cell in row if cell) for table in page.tables for row in table}
    makers = (
        _tables.choice,
        _tables.scores,
        _tables.learning,
        _tables.calibration,
        _tables.agreement,
        _tables.costs,
    )
    for table in (maker(experiment) for maker in makers):
        for row in table.rows:
            cells = [cell for cell in row if cell]
            assert tuple(cells) in shown
            assert re.search(r"\s+".join(map(re.escape, cells)), printed), cells
        # The lines of a note are broken differently.
        assert table.note in page.text
        assert table.note in " ".join(printed.split())
    for image in _tables.uncertain(experiment).rows:
        for probability in re.findall(r"\d+\.\d %", image[3]):
            assert probability in page.text
            assert probability in printed
        assert f"image {image[0]}" in page.text
        assert f"std {image[4]}" in page.text


def test_lines_fit_the_terminal(run):
    assert max(map(len, run[2].splitlines()[:-1])) <= 80


def test_picture_of_the_readme_is_svg(experiment):
    kept = (ROOT / "docs" / "images" / "digits.svg").read_text(encoding="utf-8")
    for picture in (_demo.readme_picture(experiment), kept):
        root = ElementTree.fromstring(picture)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "href" not in picture


# ---- the numbers --------------------------------------------------------------------------------


def test_solver_agrees_with_the_factorised_matrix(experiment):
    agreement = experiment.agreement
    assert agreement.residual <= agreement.tol
    # The bound is exact but for rounding.
    assert agreement.score_difference <= agreement.score_bound + 1e-12
    assert agreement.score_difference < 1e-6
    assert agreement.std_difference < 1e-6


def test_contenders_and_costs(experiment):
    assert [c.is_chosen for c in experiment.contenders].count(True) == 2
    for contender in experiment.contenders:
        assert contender.best in contender.candidates
        assert contender.quality.accuracy > 0.9
        assert sum(b.count for b in contender.quality.bins) == experiment.n_test
        np.testing.assert_allclose(contender.probabilities.sum(axis=1), 1.0)
    gp, linear = experiment.chosen(_models.GP), experiment.chosen(_models.LINEAR)
    gained = (gp.quality.accuracy - linear.quality.accuracy) * experiment.n_test
    assert round(gained) == experiment.n_only_gp_right - experiment.n_only_linear_right
    assert len(experiment.costs) == 5
    for cost in experiment.costs:
        assert min(cost.fit_seconds, cost.predict_seconds, cost.probability_seconds) > 0
    peak = experiment.costs[0].peak_bytes
    if sys.platform == "win32":
        assert peak is None
    else:
        # More than the weights, less than a copy of the process.
        assert 1198 * 10 * 8 < peak < 1 << 28


def test_learning_gains(experiment):
    ways = list(_learning.WAYS)
    for features in ("blocks", "windows"):
        found = {
            learned.way: learned for learned in experiment.learning if learned.features == features
        }
        given, learned, with_exponent = (found[way] for way in ways)
        assert given.n_evaluations == 0 < learned.n_evaluations
        assert given.parameters == {"noise": 0.1, "amplitude": 1.0}
        assert learned.log_marginal_likelihood > given.log_marginal_likelihood
        assert with_exponent.log_marginal_likelihood > learned.log_marginal_likelihood
        assert learned.quality.log_loss < given.quality.log_loss
    assert len(experiment.learning) == 2 * len(ways)


def test_uncertain_images_come_first(experiment):
    assert len(experiment.uncertain) == 10
    p = np.array([u.probabilities for u in experiment.uncertain])
    entropy = -np.sum(p * np.log(p), axis=1)
    assert np.all(np.diff(entropy) <= 0)
    assert all(u.std > 0 for u in experiment.uncertain)


def test_split_is_a_partition():
    digits = _data.load(seed=3)
    parts = np.concatenate([digits.fit, digits.validation, digits.test])
    np.testing.assert_array_equal(np.sort(parts), np.arange(1797))


def test_windows_are_sums_of_blocks(rng):
    image = rng.integers(0, 17, size=(8, 8)).astype(float)
    expected = [
        image[top : top + height, left : left + width].sum()
        for height in (1, 2, 4, 8)
        for width in (1, 2, 4, 8)
        for top in range(9 - height)
        for left in range(9 - width)
    ]
    np.testing.assert_array_equal(_data.window_counts(image[None])[0], expected)


def test_plain_gaussian_process_is_the_estimators(rng):
    X, X_test = rng.random((60, 5)), rng.random((20, 5))
    y = rng.integers(0, 3, size=60)
    plain = _models.CholeskyGP(noise=0.1, amplitude=2.0).fit(X, y)
    parameters = {**PLAIN, "calibration": None, "noise": 0.1, "amplitude": 2.0, "tol": 1e-12}
    model = IntersectionGPClassifier(**parameters).fit(X, y)
    for method in ("decision_function", "predict_proba", "predict"):
        np.testing.assert_allclose(
            getattr(plain, method)(X_test), getattr(model, method)(X_test), rtol=1e-8
        )
    np.testing.assert_allclose(plain.std(X_test), model.predict(X_test, return_std=True)[1])


def test_calibration_of_known_probabilities():
    probabilities = np.array([[0.95, 0.05], [0.95, 0.05], [0.4, 0.6], [1.0, 0.0]])
    quality = _scores.assess(probabilities, np.array([0, 1, 1, 0]))
    assert quality.accuracy == 0.75
    assert [(b.lower, b.count) for b in quality.bins] == [(0.6, 1), (0.9, 3)]
    expected = 0.25 * (1 - 0.6) + 0.75 * ((0.95 + 0.95 + 1) / 3 - 2 / 3)
    assert quality.calibration_error == pytest.approx(expected)
    assert quality.log_loss == pytest.approx(-np.log([0.95, 0.05, 0.6, 1.0]).mean())


def test_interval_of_a_share():
    # Wilson's interval for 9 of 10, from a table.
    lower, upper = _scores.Bin(0.8, 0.9, 10, 0.85, 0.9).accuracy_interval()
    assert (lower, upper) == pytest.approx((0.5958, 0.9821), abs=1e-4)


# ---- the command --------------------------------------------------------------------------------


def test_version():
    command = [sys.executable, "-m", "histrs._cli", "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == f"histrs {__version__}\n"


def test_quiet_prints_nothing(experiment, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_demo, "run_experiment", lambda *_: experiment)
    assert _cli.main(["demo", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "histrs-demo.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["demo", "--seed", "-1"], "'-1' is not an integer from 0 to 4294967295"),
        (["demo", "--seed", "one"], "'one' is not an integer from 0"),
        (["demo", "--output", "absent/page.html"], "there is no directory absent; make it first"),
        (["demo", "--output", "."], "is a directory; name a file"),
    ],
)
def test_bad_arguments(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        _cli.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_unwritable_path(tmp_path, monkeypatch, capsys):
    # Permissions would not stop a superuser.
    monkeypatch.setattr(_cli.os, "access", lambda *_: False)
    with pytest.raises(SystemExit) as stop:
        _cli.main(["demo", "--output", str(tmp_path / "page.html")])
    assert stop.value.code == 2
    assert "is not writable" in capsys.readouterr().err


def test_only_pages_of_the_demo_are_replaced(run, tmp_path, monkeypatch, capsys):
    page, output = run[1], tmp_path / "page.html"
    output.write_text("<!DOCTYPE html><title>mine</title>")
    with pytest.raises(SystemExit) as stop:
        _cli.main(["demo", "--output", str(output)])
    assert stop.value.code == 2
    assert "is another file than a page of the demo; name a new one" in capsys.readouterr().err
    assert output.read_text() == "<!DOCTYPE html><title>mine</title>"
    monkeypatch.setattr(_demo, "run_experiment", lambda *_: None)
    monkeypatch.setattr(_demo, "page", lambda _: page)
    for before in ("", page):
        output.write_text(before)
        assert _cli.main(["demo", "--output", str(output), "--quiet"]) == 0
        assert output.read_text(encoding="utf-8") == page
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_failure_to_write(experiment, tmp_path, monkeypatch, capsys):
    def fail(*_arguments, **_options):
        raise OSError("no space left on device")

    monkeypatch.setattr(_demo, "run_experiment", lambda *_: experiment)
    monkeypatch.setattr(_cli, "save", fail)
    assert _cli.main(["demo", "--output", str(tmp_path / "page.html")]) == 1
    assert "no space left on device" in capsys.readouterr().err


def test_ctrl_c(tmp_path, monkeypatch, capsys):
    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(_demo, "run_experiment", interrupt)
    assert _cli.main(["demo", "--output", str(tmp_path / "page.html")]) == 130
    assert "interrupted" in capsys.readouterr().err
