"""
From a CSV file to intervals
============================

The file has words, dates and missing values. `TabularGPRegressor` takes the data frame without any
preparation. Its 90% intervals are narrow if similar flats have similar rents, and wide otherwise.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from histrs.gaussian_process import TabularGPRegressor

data = Path("docs/data")
if not data.exists():  # the gallery runs in the folder of this file
    data = Path("../docs/data")
flats = pd.read_csv(data / "flats.csv", parse_dates=["listed"])
print(flats.isna().mean().loc[lambda missing: missing > 0].map("{:.0%} missing".format))

X, y = flats.drop(columns="rent"), flats["rent"]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = TabularGPRegressor(random_state=0).fit(X_train, y_train)
mean = model.predict(X_test)
low, high = model.predict_interval(X_test, coverage=0.9).T
inside = (low <= y_test) & (y_test <= high)
print(f"rents inside the 90% intervals: {inside.mean():.0%}")
shown = X_test.assign(low=low, high=high, rent=y_test).head()
print(shown.to_string(index=False, float_format="{:.0f}".format))

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for here, name, color in ((inside, "inside", "tab:blue"), (~inside, "outside", "tab:red")):
    wide = np.abs(np.vstack([low, high])[:, here] - mean[here])
    left.errorbar(y_test[here], mean[here], yerr=wide, fmt=".", color=color, alpha=0.6, label=name)
ends = [y_test.min(), y_test.max()]
left.plot(ends, ends, color="0.3")
left.set(xlabel="rent", ylabel="prediction, with its interval")
left.legend()
right.barh(X.columns, model.feature_importances_)
right.set(title="importances")
plt.show()
