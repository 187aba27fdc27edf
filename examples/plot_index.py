"""
An index that is kept
=====================

An index holds 16 bytes of each image, and divides the images among lists. A query searches a few
lists, and orders its candidates by exact distances. Images are added and removed by their numbers,
and the index is saved. The figure shows how many of the ten nearest images are found, against the
number of lists, and the neighbours of a query before and after three images were removed.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from histrs.quantization import CodeNeighbors, ProductQuantizer

X, _ = load_digits(return_X_y=True)
rows, queries = X[:1500], X[1500:]
nearest = NearestNeighbors(n_neighbors=10).fit(rows).kneighbors(queries, return_distance=False)
quantizer = ProductQuantizer(16, 32, random_state=0)

fig = plt.figure(figsize=(9, 3.6), layout="constrained")
left, right = fig.subfigures(1, 2)
ax = left.subplots()
for name, rerank in {"codes": None, "and exact distances of 30": 30}.items():
    recall = []
    for n_probes in (1, 2, 4, 8, 16):
        index = CodeNeighbors(quantizer, 10, n_lists=32, n_probes=n_probes, rerank=rerank).fit(rows)
        found = index.kneighbors(queries, return_distance=False)
        recall.append(np.mean([np.isin(a, b).mean() for a, b in zip(found, nearest, strict=True)]))
    ax.semilogx([1, 2, 4, 8, 16], recall, ".-", base=2, label=name)
    print(f"{name}: {np.round(recall, 2)}")
ax.set(xlabel="lists of 32 that are searched", ylabel="fraction of the ten nearest found")
ax.legend()

# %%
# Images have the numbers that they are given, and keep them.
index = CodeNeighbors(quantizer, 6, n_lists=32, rerank=30).fit(rows[:1000], ids=np.arange(1000))
index.add(rows[1000:], ids=np.arange(1000, 1500))
path = Path(tempfile.mkdtemp()) / "index"
index.save(path)
before = index.kneighbors(queries[:1], return_distance=False)[0]
index.remove(before[:3])
after = index.kneighbors(queries[:1], return_distance=False)[0]
again = CodeNeighbors.load(path).kneighbors(queries[:1], return_distance=False)[0]
print(f"before {before}, after {after}, of the saved index {again}")

panels = right.subplots(2, 7)
for (first, *others), name, ids in zip(panels, ("before", "after"), (before, after), strict=True):
    first.imshow(queries[0].reshape(8, 8), cmap="gray_r")
    first.set_title("query", fontsize="small")
    first.set_ylabel(name)
    for panel, k in zip(others, ids, strict=True):
        panel.imshow(rows[k].reshape(8, 8), cmap="gray_r", alpha=0.8)
        panel.set_title(k, fontsize="small")
for panel in panels.flat:
    panel.set(xticks=[], yticks=[])
plt.show()
