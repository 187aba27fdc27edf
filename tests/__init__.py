"""Tests: a package, so that none of this name that is installed takes its place."""
