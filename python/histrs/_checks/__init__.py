"""Checks of arguments, and what they hand on."""
