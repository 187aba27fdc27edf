"""Detection with deformable parts, straight from the definitions.

Sources: Felzenszwalb, Girshick, McAllester and Ramanan, "Object detection with discriminatively
trained part-based models", PAMI 2010 (DPM); Vedaldi and Zisserman, "Sparse kernel approximations
for efficient classification and detection", CVPR 2012 (SPARSE), section 5.2.
"""

import numpy as np

N_HALF, N_DIRECTIONS, N_FEATURES = 9, 18, 31


# ---- gradients ----------------------------------------------------------------------------------


def gradient(image):
    """Differences of the neighbours of each pixel, of the channel in which they are longest."""
    n_rows, n_columns = image.shape[:2]
    rows, columns = np.arange(n_rows), np.arange(n_columns)
    right, left = np.minimum(columns + 1, n_columns - 1), np.maximum(columns - 1, 0)
    below, above = np.minimum(rows + 1, n_rows - 1), np.maximum(rows - 1, 0)
    across = image[:, right] - image[:, left]
    down = image[below] - image[above]
    longest = np.argmax(across**2 + down**2, axis=2)[..., None]
    take = lambda x: np.take_along_axis(x, longest, axis=2)[..., 0]  # noqa: E731
    return take(across), take(down)


def cell_histograms(image, cell):
    """Lengths of gradients by direction, shared by the nearest cells (DPM, section 6.1)."""
    across, down = gradient(image)
    angles = 2 * np.pi * np.arange(N_DIRECTIONS) / N_DIRECTIONS
    products = across[..., None] * np.cos(angles) + down[..., None] * np.sin(angles)
    # The first of two directions that are equally near.
    direction = np.round(products, 9).argmax(axis=2)
    length = np.hypot(across, down)
    n_cells = [max(int(n / cell + 0.5), 1) for n in image.shape[:2]]
    histograms = np.zeros((*n_cells, N_DIRECTIONS))
    for y, x in np.ndindex(length.shape):
        for i in range(n_cells[0]):
            for j in range(n_cells[1]):
                near_y = 1 - abs((y + 0.5) / cell - 0.5 - i)
                near_x = 1 - abs((x + 0.5) / cell - 0.5 - j)
                if near_y > 0 and near_x > 0:
                    histograms[i, j, direction[y, x]] += near_y * near_x * length[y, x]
    return histograms


def hog(image, cell):
    """The 31 features of each cell (DPM, section 6.2)."""
    h = cell_histograms(image, cell)
    u = h[..., :N_HALF] + h[..., N_HALF:]
    energy = np.pad((u**2).sum(axis=2), 1, mode="edge")
    n_rows, n_columns = h.shape[:2]
    features = np.zeros((n_rows, n_columns, N_FEATURES))
    for y, x in np.ndindex(n_rows, n_columns):
        sums = []
        for dy in (0, 1):
            for dx in (0, 1):
                block = energy[y + dy : y + dy + 2, x + dx : x + dx + 2].sum()
                norm = 1 / np.sqrt(block + 1e-4)
                shares = np.minimum(h[y, x] * norm, 0.2)
                features[y, x, :N_DIRECTIONS] += shares / 2
                features[y, x, N_DIRECTIONS:27] += np.minimum(u[y, x] * norm, 0.2) / 2
                sums.append(shares.sum() * 0.2357)
        features[y, x, 27:] = sums
    return features


def resized(image, scale):
    """The image at a scale: halved while that is at most a half, then by triangular weights."""
    shape = [max(int(n * scale + 0.5), 1) for n in image.shape[:2]]
    while scale <= 0.5:
        n_rows, n_columns = image.shape[:2]
        image = np.pad(image, ((0, n_rows % 2), (0, n_columns % 2), (0, 0)), mode="edge")
        image = (image[::2] + image[1::2]) / 2
        image = (image[:, ::2] + image[:, 1::2]) / 2
        scale *= 2
    for axis, n in enumerate(shape):
        centres = np.clip((np.arange(n) + 0.5) / scale - 0.5, 0, image.shape[axis] - 1)
        away = np.abs(np.arange(image.shape[axis]) - centres[:, None])
        weights = np.maximum(1 - away / max(1 / scale, 1), 0)
        weights /= weights.sum(axis=1, keepdims=True)
        image = np.moveaxis(np.tensordot(weights, image, (1, axis)), 0, axis)
    return image


# ---- parts --------------------------------------------------------------------------------------


# ---- evaluation ---------------------------------------------------------------------------------


def overlap(box, other):
    """Intersection over union."""
    sides = [min(box[k + 2], other[k + 2]) - max(box[k], other[k]) for k in (0, 1)]
    shared = max(sides[0], 0) * max(sides[1], 0)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (box, other)]
    return shared / (sum(areas) - shared)


def average_precision(boxes, scores, truth, least):
    """Area under precision against recall, by the PASCAL rule of 2010."""
    found = [(s, i, b) for i in range(len(boxes)) for s, b in zip(scores[i], boxes[i], strict=True)]
    found.sort(key=lambda entry: -entry[0])
    taken, right = set(), []
    for _, i, box in found:
        shares = [overlap(box, other) for other in truth[i]]
        j = int(np.argmax(shares)) if shares else -1
        hit = j >= 0 and shares[j] > least and (i, j) not in taken
        if hit:
            taken.add((i, j))
        right.append(hit)
    n = sum(len(own) for own in truth)
    recall = np.cumsum(right) / n
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    area, before = 0.0, 0.0
    for k in range(len(right)):
        area += (recall[k] - before) * max(precision[k:])
        before = recall[k]
    return area
