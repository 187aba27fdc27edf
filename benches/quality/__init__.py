"""How good the answers are, on real tables at real size: ``python -m benches.quality``."""
