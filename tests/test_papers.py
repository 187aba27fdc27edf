"""The experiments of the papers: declared, run, resumed, judged. No outcome or time is asserted."""

import json

import pytest

from benches.papers import __main__ as program
from benches.papers import _page
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


# ---- quick runs -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name", ["cheb-table-3", "nsvm-table-1", "gphik-figure-15", "sparse-figure-2", "compress-ssvep"]
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
