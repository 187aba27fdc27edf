"""
Neighbours among bytes
======================

Each row is stored in a few bytes. A search computes distances as sums of entries of a look-up
table. A rotation of the columns, or a second level of codes for the residuals of the first, can
increase the accuracy at the same number of bytes. Here two levels find most of the true
neighbours, although their squared error is no smaller.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from histrs.quantization import CodeNeighbors, ProductQuantizer

X, _ = load_digits(return_X_y=True)
rows, queries = X[:1400], X[1400:]
nearest = NearestNeighbors(n_neighbors=10).fit(rows).kneighbors(queries, return_distance=False)

n_bytes = [2, 4, 8, 16]
kinds = {"blocks": {}, "rotated blocks": {"rotation": "opq"}, "two levels": {"n_levels": 2}}
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for name, parameters in kinds.items():
    errors, recalls = [], []
    for n in n_bytes:
        n_blocks = n // parameters.get("n_levels", 1)
        quantizer = ProductQuantizer(n_blocks, 64, random_state=0, **parameters)
        index = CodeNeighbors(quantizer, n_neighbors=10).fit(rows)
        found = index.kneighbors(queries, return_distance=False)
        recalls.append(np.mean([np.isin(a, b).mean() for a, b in zip(found, nearest, strict=True)]))
        errors.append(index.quantizer_.quantization_error(queries) / X.var(axis=0).sum())
    print(f"{name}: {np.round(recalls, 2)} of the ten nearest found")
    left.semilogx(n_bytes, errors, ".-", base=2, label=name)
    right.semilogx(n_bytes, recalls, ".-", base=2, label=name)
left.set(xlabel="bytes per row", ylabel="squared error / variance")
right.set(xlabel="bytes per row", ylabel="fraction of the ten nearest found")
left.legend()
for ax in (left, right):
    ax.set_xticks(n_bytes, [str(n) for n in n_bytes])
plt.show()
