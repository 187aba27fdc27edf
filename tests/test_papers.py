"""The experiments of the papers: declared, run, resumed, judged. No outcome or time is asserted."""

import json
import re
from pathlib import Path

import pytest

from benches.papers import __main__ as program
from benches.papers import _experiment, _page, cheb, compress, gphik
from benches.papers._experiment import (
    FILES,
    PAPERS,
    Claim,
    Experiment,
    Panel,
    Points,
    Run,
    above,
    all_experiments,
    claim,
    keep,
    load,
    perform,
    verdict,
)
from tests.helpers import ROOT

EXPERIMENTS = all_experiments()
# Every table and figure of the papers that is a measurement.
EXPECTED = {
    "cheb": {"table-1", "table-2", "table-3", "table-4"},
    "nsvm": {"figure-3", "figure-5", "table-1"},
    "gphik": {
        *("table-3", "table-4", "table-7", "1000-classes"),
        *(f"figure-{k}" for k in (6, 7, 8, 10, 11, 12, 13, 15, 16)),
    },
    "sparse": {"figure-2", "figure-3"},
    "compress": {"ssvep", "digits", "clothes", "leaves", "shapes"},
}


def toy(measure, name="toy-1", **options):
    settings = {
        "paper": "cheb",
        "title": "A toy",
        "original": "it is above.",
        "needs": (),
        "modules": (),
        "minutes": 0.1,
        "x": "size",
        "log_x": False,
        "curves_in_table": True,
        "panels": (Panel("accuracy", "accuracy, %"),),
        "judge": lambda points: [above(points, "ours", "peer")],
    }
    return Experiment(name=name, measure=measure, **settings | options)


def points(ours, peer):
    found = Points()
    for a, b in zip(ours, peer, strict=True):
        found.add("ours", 10, accuracy=a)
        found.add("peer", 10, accuracy=b)
    return found


def better(run):
    return points([3.0, 4.0, 5.0], [1.0, 2.0, 2.5]), "three runs."


def run_all(*experiments, folder, quick=True, again=False):
    said = []
    failed = program.run_all(list(experiments), folder, quick, again, said.append)
    return failed, said


# ---- the registry ---------------------------------------------------------------------------


def test_every_table_and_figure_is_declared():
    assert set(EXPECTED) == set(PAPERS)
    names = {f"{paper}-{name}" for paper, own in EXPECTED.items() for name in own}
    assert set(EXPERIMENTS) == names


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_declaration_is_whole(name):
    wanted = EXPERIMENTS[name]
    assert name.startswith(f"{wanted.paper}-")
    assert set(wanted.needs) <= set(FILES)
    assert wanted.original.endswith(".")
    assert wanted.panels
    assert 0 < wanted.minutes < 20


def test_a_full_run_stays_below_two_hours():
    assert sum(wanted.minutes for wanted in EXPERIMENTS.values()) < 120


def test_names_are_unique():
    with pytest.raises(ValueError, match="two experiments are named cheb-table-1"):
        _experiment.experiment("cheb-table-1", "again")(better)


def test_the_list_and_unknown_names(capsys):
    assert program.main(["--list", "gphik"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(EXPECTED["gphik"])
    assert program.main(["nothing-of-this-name"]) == 2


# ---- running and resuming -------------------------------------------------------------------


def test_finished_experiments_are_skipped_unless_asked_again(tmp_path):
    calls = []

    def measure(run):
        calls.append(run.quick)
        return better(run)

    wanted = toy(measure)
    for again in (False, False, True):
        failed, said = run_all(wanted, folder=tmp_path, again=again)
        assert not failed
    assert len(calls) == 2
    assert "finished before" not in said[0]
    assert "finished before" in run_all(wanted, folder=tmp_path)[1][0]


def test_what_is_done_is_kept_when_a_later_experiment_is_interrupted(tmp_path):
    def interrupted(run):
        run.progress(1, 2, "half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(toy(better), toy(interrupted, "toy-2"), folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["toy-1.json"]


def test_an_interrupted_write_leaves_the_file_before_and_nothing_else(tmp_path):
    path = tmp_path / "kept.json"
    _experiment.write(path, lambda file: file.write(b"whole"))

    def half(file):
        file.write(b"ha")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _experiment.write(path, half)
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_experiment_stops_no_other(tmp_path, capsys):
    def broken(run):
        raise RuntimeError("no luck")

    failed, _ = run_all(toy(broken, "toy-0"), toy(better), folder=tmp_path)
    assert failed == ["toy-0"]
    assert "no luck" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["toy-1.json"]


def test_figures_that_are_not_finite_are_not_kept(tmp_path, capsys):
    def nan(run):
        return points([float("nan"), 1.0], [0.0, 0.0]), "not a number."

    failed, _ = run_all(toy(nan), folder=tmp_path)
    assert failed == ["toy-1"]
    assert "accuracy = [nan" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_missing_data_is_said_and_replaces_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("HISTRS_DATA", str(tmp_path / "nowhere"))
    wanted = toy(better, needs=("leaves100",), modules=("no_such_module",))
    folder = tmp_path / "json"
    _, said = run_all(wanted, folder=folder, quick=False)
    assert FILES["leaves100"] in said[0]
    assert "no_such_module" in said[0]
    skipped = load(folder, wanted.name)
    assert _page.sentence(wanted, skipped).startswith("Skipped: leaves100/")

    keep(perform(wanted, Run(quick=False)), folder)
    run_all(wanted, folder=folder, quick=False, again=True)
    assert "points" in load(folder, wanted.name)


def test_arrays_are_computed_once_and_kept_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("HISTRS_CACHE", str(tmp_path))
    calls = []

    def compute():
        calls.append(1)
        return {"X": [1.0, 2.0]}

    for _ in range(2):
        assert Run(quick=False).cached("key", compute)["X"].tolist() == [1.0, 2.0]
    assert calls == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["key.npz"]


# ---- verdicts -------------------------------------------------------------------------------


def test_the_sentence_follows_the_claims():
    yes, no = Claim(True, "it is so"), Claim(False, "it is not so")
    assert verdict([yes, yes]) == "**Holds**: it is so; it is so."
    assert verdict([no]) == "**Does not hold here**: it is not so."
    assert verdict([no, yes]) == "**Holds in part**: it is so; but it is not so."
    assert claim(0, "a", "b") == Claim(False, "b")
    with pytest.raises(ValueError, match="at least one claim"):
        verdict([])


def test_above_is_by_two_standard_errors():
    assert above(points([3, 4, 5], [1, 2, 3]), "ours", "peer").holds
    assert not above(points([1, 2, 3], [3, 4, 5]), "ours", "peer").holds
    noise = above(points([3, 1, 2.1], [1, 3, 2]), "ours", "peer")
    assert not noise.holds
    assert "+0.03 ± " in noise.text


def test_the_page_follows_the_figures(tmp_path):
    wanted = toy(better)
    keep(perform(wanted, Run(quick=True)), tmp_path)
    result = load(tmp_path, wanted.name)
    assert "**Holds**" in _page.sentence(wanted, result)
    for row in result["points"]:
        if row["series"] == "ours":
            row["values"]["accuracy"] = [0.0, 0.0, 0.0]
    assert "**Does not hold here**" in _page.sentence(wanted, result)
    assert "Not run yet: `python -m benches.papers toy-1`" in _page.sentence(wanted, None)


@pytest.mark.parametrize(("order", "holds"), [([0, 1, 2], False), ([2, 1, 0], True)])
def test_the_verdict_on_sizes_follows_their_order(order, holds):
    found = Points()
    for name, level in zip((cheb.PRINCIPAL, cheb.CHEBYSHEV, cheb.PERIODIC), order, strict=True):
        for seed in range(3):
            rmse = 0.1 / (1 + level)
            found.add(name, 100, accuracy=30 + level + 0.01 * seed, **{"kernel RMSE": rmse})
    found.add(cheb.EXACT, accuracy=32.5)
    found.add(cheb.PLAIN, accuracy=20.0)
    claims = cheb.judge_sizes(found)
    assert [c.holds for c in claims] == [holds] * 5 + [True]


def test_the_verdict_on_compression_follows_its_errors():
    def found(learned):
        kept = Points()
        for seed in range(2):
            for percent in (2.0, 4.0):
                kept.add(compress.SCC, percent, error=learned, seconds=1, **{"speed-up": 40})
                kept.add(compress.SUBSET, percent, error=20.0)
                kept.add(compress.MEANS, percent, error=15.0)
            kept.add(compress.FULL, error=5.0 + seed)
            kept.add("tangent space + logistic", error=4.0)
        return [c.holds for c in compress.judge(kept)]

    assert found(3.0) == [True] * 4
    assert found(30.0) == [False, False, True, False]


@pytest.mark.parametrize(("by", "holds"), [(1.0, False), (-1.0, True)])
def test_what_is_better_on_every_split_is_clearly_better(by, holds):
    kept = Points()
    for seed in range(5):
        # Splits differ by more than the ways do.
        kept.add(compress.SHC, 10.0, error=10.0 + 5 * seed, seconds=1, **{"speed-up": 40})
        kept.add(compress.MEANS, 10.0, error=10.1 + 5 * seed - by - 0.1 * seed)
        kept.add(compress.FULL, error=10.1 + 5 * seed - by - 0.1 * seed)
    claims = compress.judge(kept)
    # Neither than something simpler, nor than all samples.
    assert [claims[1].holds, claims[-1].holds] == [holds, holds]


# ---- quick runs -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name",
    ["cheb-table-3", "nsvm-table-1", "gphik-figure-15", "sparse-figure-2", "compress-ssvep"],
)
def test_a_quick_run_needs_no_data_and_touches_no_page(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HISTRS_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("QUICK", "1")
    monkeypatch.setattr(program, "RESULTS", tmp_path / "untouched")
    monkeypatch.setattr(program, "PAGES", tmp_path / "untouched")
    assert program.main([name, "--output", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "untouched").exists()
    result = load(tmp_path / "out" / "json", name)
    assert result["quick"]
    page = (tmp_path / "out" / f"{EXPERIMENTS[name].paper}.md").read_text(encoding="utf-8")
    assert "(Quick run, which says nothing.) **" in page
    assert f"]({name}.svg)" in page
    assert (tmp_path / "out" / f"{name}.svg").stat().st_size > 1000


def test_a_quick_run_leaves_nothing_behind(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(program, "run_all", lambda *_: [])
    assert program.main(["--quick", "sparse"]) == 0
    folder = re.search(r"^pages: (.*)$", capsys.readouterr().out, flags=re.MULTILINE)[1]
    assert not Path(folder).exists()


def test_an_interrupted_run_says_how_to_go_on(monkeypatch, tmp_path, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "run_all", interrupted)
    assert program.main(["--quick", "sparse", "--output", str(tmp_path)]) == 130
    assert "interrupted: the same command goes on" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_verdict_on_variances_sees_every_size_and_every_run():
    times = {
        "GP, plain formulation": 10.0,
        "PUP": 100.0,
        "FAPU, k = 8": 1.0,
        "FAPU, k = 2": 0.5,
        "CAPU": 0.1,
        "q-CAPU": 0.01,
    }

    def found(at_small):
        kept = Points()
        for n in (1500, 6000):
            for name, ms in (times | {"cached (ours)": 0.01}).items():
                for run in range(2):
                    swapped = at_small and n == 1500 and name == "q-CAPU" and run == 1
                    kept.add(name, n, **{"ms a row": 0.2 if swapped else ms})
        return gphik.judge_variances(kept)

    assert all(c.holds for c in found(False))
    failed = [c.text for c in found(True) if not c.holds]
    assert any(text.startswith("q-CAPU is not faster than CAPU") for text in failed)
    assert any("differ by up to 20.0 times" in text for text in failed)


@pytest.mark.parametrize("growth", ["linear", "exponential"])
def test_the_verdict_on_early_stopping_follows_growth_and_noise(growth):
    found = Points()
    for digits in (1, 2, 3, 4, 6):
        for split in range(5):
            best = 79.0 + (0.2 if digits == 1 else 0.0) * (split % 2)
            n = 5 * digits if growth == "linear" else 2**digits
            found.add(gphik.HIK, 10.0**-digits, accuracy=best, iterations=n)
    settled, best, exponential = gphik.judge_stopping(found)
    assert settled.holds
    assert not best.holds
    assert exponential.holds == (growth == "exponential")


@pytest.mark.parametrize(("gain", "seen"), [(0.0, False), (-0.05, True)])
def test_the_verdict_on_variance_is_against_random(gain, seen):
    found = Points()
    for x in (20, 25):
        for task in range(10):
            noise = 0.01 * (-1) ** task
            found.add("random", x, AUC=0.8)
            found.add("mean", x, AUC=0.9 + noise)
            found.add("uncertainty", x, AUC=0.9 + noise)
            found.add("variance", x, AUC=0.8 + gain + noise)
    claims = gphik.judge_active(found)
    assert claims[-1].holds == seen
    assert "random" in claims[-1].text


# ---- what is committed ----------------------------------------------------------------------


def test_committed_results_are_of_full_runs():
    paths = sorted(program.RESULTS.glob("*.json"))
    assert paths
    for path in paths:
        result = json.loads(path.read_text(encoding="utf-8"))
        assert result["name"] == path.stem
        assert path.stem in EXPERIMENTS
        assert not result["quick"]


def test_committed_pages_say_what_the_results_say():
    kept = {name: load(program.RESULTS, name) for name in EXPERIMENTS}
    for paper in PAPERS:
        own = [e for e in EXPERIMENTS.values() if e.paper == paper]
        written = (program.PAGES / f"{paper}.md").read_text(encoding="utf-8")
        assert written == _page.page(paper, own, kept), f"{paper}.md: --render makes it anew"
    written = (program.PAGES / "index.md").read_text(encoding="utf-8")
    assert written == _page.index(EXPERIMENTS, kept)


def test_make_and_the_manual_know_the_papers():
    assert "QUICK=1 papers" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"^papers:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert "\nresults/index\n" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
