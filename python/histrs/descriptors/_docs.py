"""Descriptions of parameters and attributes that encoders of local features share."""

from __future__ import annotations

from histrs._estimator import by_name

LOCAL_FEATURES = by_name("""
positions : bool, default=False
    Whether the first two columns of the local features are their positions, down and right, in
    [0, 1]. They are not described, and only `pyramid` needs them.
n_features_in_ : int
    Number of columns of the local features.
""")
