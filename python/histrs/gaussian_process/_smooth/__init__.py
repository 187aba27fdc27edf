"""Smooth functions of features: integrated Brownian motion in place of Brownian motion."""
