"""
Texts that share few words
==========================

The word mover's distance moves the words of one text to the words of another. The cost of a move is
the distance of their embeddings, here from a truncated SVD of the texts. With `positions`, costs
are computed only between the words of two texts. The nearest texts in this metric predict about as
well as those by tf-idf. The plan shows which words correspond to each other.
"""

import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from histrs.neighbors import MetricKNNClassifier
from histrs.transport import emd_plan

modules = ["scipy.stats", "scipy.signal", "scipy.linalg", "scipy.special", "sklearn.metrics"]
texts, labels = [], []
for module in map(importlib.import_module, modules):
    for name in sorted(module.__all__):
        texts.append(" ".join((inspect.getdoc(getattr(module, name)) or "").split()[:25]))
        labels.append(module.__name__)
vectorizer = CountVectorizer(stop_words="english", min_df=3, token_pattern=r"[a-z]{3,}")
counts = vectorizer.fit_transform(texts).astype(float)
kept = np.diff(counts.indptr) > 2
counts, labels = counts[kept], np.array(labels)[kept]
weights = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
embeddings = normalize(TruncatedSVD(60, random_state=0).fit(weights).components_.T)

# %%
# The five nearest texts predict the module.
train, test = train_test_split(np.arange(len(labels)), test_size=150, random_state=0)
kinds = {
    "counts": (normalize(counts), {"metric": "euclidean"}),
    "tf-idf": (weights, {"metric": "euclidean"}),
    "mean embedding": (normalize(weights @ embeddings), {"metric": "euclidean"}),
    "word mover's": (counts, {"metric": "emd", "metric_params": {"positions": embeddings}}),
}
accuracy = {}
for kind, (X, options) in kinds.items():
    model = MetricKNNClassifier(5, **options).fit(X[train], labels[train])
    accuracy[kind] = model.score(X[test], labels[test])

# %%
# The text that has the fewest words of its nearest neighbour, among those of the same module.
nearest = train[model.kneighbors(counts[test], 1, return_distance=False)[:, 0]]
shared = np.asarray(counts[test].minimum(counts[nearest]).sum(axis=1)).ravel()
shared[labels[nearest] != labels[test]] = np.inf
pair = [test[np.argmin(shared)], nearest[np.argmin(shared)]]
a, b = normalize(counts[pair], "l1").toarray()
plan = emd_plan(a, b, M=np.linalg.norm(embeddings[:, None] - embeddings, axis=2))

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.barh(list(accuracy), list(accuracy.values()))
left.set(xlim=(0.8, 1), xlabel="accuracy")
rows, columns = np.flatnonzero(a), np.flatnonzero(b)
right.imshow(plan[np.ix_(rows, columns)], cmap="Blues")
names = vectorizer.get_feature_names_out()
right.set_xticks(range(len(columns)), names[columns], rotation=60, ha="right")
right.set_yticks(range(len(rows)), names[rows])
right.set_title("mass moved from word to word")
plt.show()
