"""
Why this prediction?
====================

The mean of an additive Gaussian process is a sum of one term for each feature, and each term has a
standard deviation. The terms explain a prediction exactly, without sampling. The figure explains
the predictions for two patients of the diabetes data, in the units of the target.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import MinMaxScaler

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.plotting import plot_explanation

data = load_diabetes(scaled=False, as_frame=True)
scaler = MinMaxScaler(clip=True).set_output(transform="pandas")
X = scaler.fit_transform(data.data)
model = IntersectionGPRegressor(random_state=0).fit(X[:350], data.target[:350])

rows = X[350:]
means = model.predict(rows)
chosen = rows.iloc[[int(means.argmin()), int(means.argmax())]]
explanation = model.explain(chosen)
for row in range(2):
    total = explanation.offset + explanation.values[row].sum()
    print(f"offset and terms {total:.1f}, prediction {model.predict(chosen)[row]:.1f}")

fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for row, (ax, name) in enumerate(zip(axes, ("least", "largest"), strict=True)):
    plot_explanation(explanation, row, ax=ax)
    ax.set_title(f"the {name} prediction: {model.predict(chosen)[row]:.0f}")
plt.show()
