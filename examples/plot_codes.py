"""
A classifier of bytes
=====================

Product quantisation stores one byte for each block of columns. A linear model learns from the codes
and scores them by look-up tables, without decoding the rows. The program prints how little accuracy
this costs.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)
roots = np.sqrt(X)
whole = BundleSVC(alpha=1e-2).fit(roots[:1200], y[:1200]).score(roots[1200:], y[1200:])

blocks = [1, 2, 4, 8, 16, 32]
scores, decoded = [], []
for n_blocks in blocks:
    quantizer = ProductQuantizer(n_blocks, 16, metric="hellinger", random_state=0).fit(X[:1200])
    codes = quantizer.transform(X)
    model = BundleSVC(quantizer, alpha=1e-2, input="features").fit(codes[:1200], y[:1200])
    scores.append(model.score(codes[1200:], y[1200:]))
    decoded.append(quantizer.inverse_transform(codes[5:6]).reshape(8, 8))
    print(f"{n_blocks:2} bytes of {X[0].nbytes} a row: {scores[-1]:.3f} of {whole:.3f}")

fig = plt.figure(figsize=(10, 3.6), layout="constrained")
left, right = fig.subfigures(1, 2)
ax = left.subplots()
ax.axhline(whole, color="0.6", linestyle="--", label=f"rows of {X[0].nbytes} bytes")
ax.semilogx(blocks, scores, ".-", base=2, label="codes")
ax.set(xlabel="bytes per row", ylabel="accuracy")
ax.legend()
images = [*decoded, X[5].reshape(8, 8)]
titles = [*(f"{n} bytes" for n in blocks), "the row"]
for ax, image, title in zip(right.subplots(2, 4).ravel(), images, titles, strict=False):
    ax.imshow(image, cmap="gray_r")
    ax.set_title(title, fontsize="small")
for ax in right.axes:
    ax.set(xticks=[], yticks=[])
right.axes[-1].axis("off")
plt.show()
