"""The harness of the benches: turns, medians, judgements, the page. No time is asserted."""

import json
import math
from fnmatch import fnmatchcase

import numpy as np
import pytest

from benches import __main__ as program
from benches import _harness, _peers, _report
from benches._harness import Check, Figure, Row, Side, Table, Target, Trial, measure
from tests.oracles import intersection as oracle


class Clock:
    """A clock that moves when a side says so."""

    def __init__(self):
        self.now = 0.0
        self.log = []

    def __call__(self):
        return self.now

    def side(self, name, seconds, result=0.0, **options):
        def run(_):
            self.log.append(name)
            self.now += seconds[len(self.log) % len(seconds)] if seconds else 0.0
            return result

        return Side(name, run, **options)


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(_harness, "PAUSE_SECONDS", 0.0)
    return Clock()


def run(clock, *sides, quick=False, **options):
    row = Row("toy", "A toy", lambda quick: Trial(sides, **options), "toys")
    return measure(row, quick, clock)


def errors(results):
    return {name: abs(result) for name, result in results.items()}


# ---- measuring ------------------------------------------------------------------------------


def test_sides_run_in_turns_after_a_warm_up(clock):
    result = run(clock, clock.side("ours", [1.0]), clock.side("peer", [2.0], peer=True))
    assert clock.log == ["ours", "peer"] * (1 + _harness.MIN_RUNS)
    ours, peer = result["sides"]
    assert ours["seconds"] == [1.0] * _harness.MIN_RUNS
    assert peer["median"] == peer["min"] == peer["max"] == 2.0
    assert (ours["peer"], peer["peer"]) == (False, True)


def test_peak_memory_is_that_of_a_process_of_its_own():
    peak = _harness.peak_bytes("column-memory", "continuous", quick=True)
    # Interpreter and libraries alone take more than 20 MB; the data is small.
    assert 2e7 < peak < 2e9


# ---- judging --------------------------------------------------------------------------------


def speedup(*peers):
    return Target("faster", lambda m: m.speedup("ours", *peers), at_least=3)


def test_the_fastest_accurate_peer_counts(clock):
    result = run(
        clock,
        clock.side("ours", [1.0]),
        clock.side("slow", [8.0], peer=True),
        clock.side("fast", [4.0], peer=True),
        clock.side("wrong", [2.0], result=1.0, peer=True),
        targets=[speedup(), speedup("slow")],
        checks=[Check("difference", errors, limit=0.5)],
    )
    assert [target["reached"] for target in result["targets"]] == [4.0, 8.0]
    assert [target["met"] for target in result["targets"]] == [True, True]
    assert [side["accurate"] for side in result["sides"]] == [True, True, True, False]
    assert result["checks"][0]["failed"] == ["wrong"]
    assert result["valid"]


@pytest.mark.parametrize("error", [1.0, math.nan, math.inf])
def test_nothing_counts_when_ours_is_wrong(clock, error):
    result = run(
        clock,
        clock.side("ours", [1.0], result=error),
        clock.side("peer", [8.0], peer=True),
        targets=[speedup()],
        checks=[Check("difference", errors, limit=0.5)],
    )
    assert not result["valid"]
    assert result["targets"][0]["met"] is None
    assert _report.verdict(result["targets"][0]) == "**not comparable**"
    json.dumps(result, allow_nan=False)


def test_no_comparison_without_an_accurate_peer(clock):
    result = run(
        clock,
        clock.side("ours", [1.0]),
        clock.side("peer", [8.0], result=1.0, peer=True),
        targets=[speedup()],
        checks=[Check("difference", errors, limit=0.5)],
        figures=lambda m: [Figure("speed-up", m.speedup("ours"))],
    )
    assert result["valid"]
    assert result["targets"][0]["reached"] is None
    assert result["targets"][0]["met"] is None
    assert result["figures"] == []


# ---- the rows -------------------------------------------------------------------------------


def test_rows_are_told_apart():
    rows = _harness.all_rows()
    assert {"growth", "boosting"} <= rows.keys()
    assert len({_report.anchor(row.title) for row in rows.values()}) == len(rows)
    assert {row.module for row in rows.values()} >= {"gaussian_process", "metrics"}


# ---- peers and data -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gram",
    [_peers.gram_by_rows, _peers.gram_by_features, _peers.gram_by_cdist, _peers.gram_by_sklearn],
)
def test_peers_compute_the_kernel(gram):
    X = np.random.default_rng(0).random((150, 5))
    np.testing.assert_allclose(gram(X), oracle.intersection_kernel(X), rtol=1e-12)


# ---- the page -------------------------------------------------------------------------------


@pytest.fixture
def result(clock):
    found = run(
        clock,
        clock.side("ours", [1.0]),
        clock.side("peer", [8.0], peer=True),
        targets=[speedup(), Target("small", lambda m: 7.0, at_most=5, unit=" ns")],
        checks=[Check("difference", errors, limit=0.5)],
        figures=lambda m: [Figure("answer", 42.5, "ms")],
        table=lambda m: Table(["rows", "seconds"], [[1000, 0.25]]),
        note="Only a toy.",
    )
    return found | {
        "command": "python -m benches toy",
        "date": "2000-01-01 00:00 UTC",
        "machine": {
            "processor": "Abacus",
            "cores": 2,
            "caches": ["L1 32K"],
            "memory_bytes": 8e9,
            "system": "Linux x86_64",
            "instruction_set": "scalar",
        },
        "versions": {"histrs": "0", "revision": "abc", "blas": "openblas"},
        "load": {"averages": [0.0, 0.0, 0.0], "cores_used_by_others": 0.0},
        "rates": {
            "stream_1_thread_bytes_per_second": 1e10,
            "stream_all_threads_bytes_per_second": 2e10,
            "dgemm_flops": 5e10,
            "sgemm_flops": 1e11,
        },
    }


def test_page(result):
    page = _report.render([result])
    for line in [
        "| [A toy](#a-toy) | faster | at least 3x | 8x | met |",
        "| [A toy](#a-toy) | small | at most 5 ns | 7 ns | **not met** |",
        "## A toy",
        "Only a toy.",
        "`python -m benches toy`",
        "| peer (peer) | 8 s | 8 s | 8 s | 5 |",
        "Checked: difference (limit 0.500). ours: 0. peer: 0.",
        "* answer: 42.5 ms",
        "| 1,000 | 0.250 |",
    ]:
        assert line in page.splitlines()
    assert "Abacus" in page
    assert "--quick" not in page


def test_results_are_kept(result, tmp_path):
    rows = {name: Row(name, name, Trial, "toys") for name in ("absent", "toy", "other")}
    program.save(result | {"name": "other"}, tmp_path)
    program.save(result, tmp_path)
    assert [found["name"] for found in program.load(tmp_path, rows)] == ["toy", "other"]
    page = tmp_path / "page" / "benchmarks.md"
    _report.write(program.load(tmp_path, rows), page)
    assert page.read_text(encoding="utf-8").startswith("# Benchmarks\n")


def test_all_that_is_not_met_is_explained():
    rows = _harness.all_rows()
    for result in program.load(program.RESULTS, rows):
        if any(target["met"] is False for target in result["targets"]):
            assert _report.shortfall(result), result["name"]
    for pattern, _ in _report.shortfalls():
        assert any(fnmatchcase(name, pattern) for name in rows), pattern


def test_the_kept_page_is_that_of_the_kept_results():
    if not program.PAGE.exists():
        pytest.skip("docs/benchmarks.md is not there; make bench writes it")
    picture = "images/growth.png"
    drawn = picture if (program.PAGE.parent / picture).exists() else None
    page = _report.render(program.load(program.RESULTS, _harness.all_rows()), drawn)
    assert program.PAGE.read_text(encoding="utf-8") == page
