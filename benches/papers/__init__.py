"""The experiments of the five papers, repeated on real data: ``python -m benches.papers --help``.

One module a paper, one function a table or figure. An experiment is declared by `experiment`; what
it measures is kept as JSON, and the pages in ``docs/results`` are made from that alone.
"""
