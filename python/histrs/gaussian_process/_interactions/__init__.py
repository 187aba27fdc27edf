"""Pairs of features beside the additive kernel: explicit blocks on grids of knots."""
