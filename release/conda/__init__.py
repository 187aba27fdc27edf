"""The recipe of conda-forge, and what fills it in."""
