"""Measurements of histrs beside its peers: `python -m benches`, or `make bench`.

A file `bench_<module>.py` a module of the package, in which every row of the table is declared once
(`_harness.row`). Results are kept in `results/` as JSON; `docs/benchmarks.md` is made from them.
"""
