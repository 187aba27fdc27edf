"""Posterior probabilities that columns of an additive process matter, by Gibbs sampling.

Targets are a sum of functions of columns, and noise. The function of a column is absent, or
Brownian motion of one of several variances. This is a mixture of a spike and slabs (Mitchell and
Beauchamp 1988, George and McCulloch 1993; for additive models, Scheipl, Fahrmeir and Kneib 2012).
The functions and the variance of the noise are integrated out, so that the state of the chain is
the variance of each column alone. The fraction of columns that matter is drawn beside it. Its
prior, Beta(1, d) for d columns, expects one of them (Castillo and van der Vaart 2012). With a
uniform prior, the functions of very many columns would fit the noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._progress import ChainProgress
from histrs._typing import Array

# The largest variance of a function, in units of the noise's; the least is so many times the
# inverse of the number of rows. Of less the data cannot tell, and a function that may be as small
# as can be is never known to be absent.
_LARGEST = 10.0
_LEAST = 30.0
# From one variance to the next.
_STEP = 3.0

# Sweeps after which rounding errors of the updates are removed.
_REFRESH = 10
# Columns that are looked at together at first, and those that a sweep exchanges at most.
_AHEAD = 8
_EXCHANGES = 8
# Of the targets, what noise at least has: without it, targets that are a function of the columns
# alone would have an infinite likelihood.
_LEAST_NOISE = 1e-10


def slab_variances(n: int) -> Array:
    """Return the variances that a function may have, in units of the noise's, for `n` rows.

    They are of equal prior probability.
    """
    least = min(_LEAST / n, _LARGEST)
    steps = round(np.log(_LARGEST / least) / np.log(_STEP))
    return np.geomspace(_LARGEST, least, 1 + steps)[::-1]


class Chain:
    """A Markov chain over the sets of columns that matter.

    `shapes`, of shape (n_rows, n_features, n_shapes), are the centred components of each column,
    and `Y` the centred targets. Both may have been rotated. Rows in which only targets are not zero
    may then be left out. `square` is the sum of squares of all targets, and `n` the number of all
    rows. `n_features` counts the columns that are known not to matter too.
    """

    def __init__(
        self,
        shapes: Array,
        Y: Array,
        square: float,
        n: int,
        n_features: int,
        rng: np.random.Generator,
    ) -> None:
        self._shapes, self._Y, self._square, self._n, self._rng = shapes, Y, square, n, rng
        self._n_features = n_features
        self._slabs = slab_variances(n)
        self._flat = shapes.reshape(len(shapes), -1)
        self.variances = np.zeros(shapes.shape[1])
        self._refresh()

    def run(self, n_sweeps: int, n_burn_in: int, progress: ChainProgress) -> Array:
        """Return the mean of each column's probability, given the others, after the burn-in."""
        total = np.zeros_like(self.variances)
        for sweep in range(n_burn_in + n_sweeps):
            probabilities = self._sweep()
            self._exchange()
            if sweep % _REFRESH == _REFRESH - 1:
                self._refresh()
            if sweep >= n_burn_in:
                total += probabilities
            progress(int(np.count_nonzero(self.variances)))
        return total / n_sweeps

    def probabilities_of(self, shapes: Array) -> Array:
        """Return the probability of columns that the chain leaves out, given its state."""
        PZ = np.einsum("nm,mda->nda", self._P, shapes)
        grams = np.einsum("nda,ndb->dab", shapes, PZ)
        slopes = np.einsum("nda,nq->daq", PZ, self._Y)
        found = 1.0 - self._shares(grams, slopes, np.full(len(grams), self._rest))[:, 0]
        return np.asarray(found)

    # ---- moves ------------------------------------------------------------------------------

    def _sweep(self) -> Array:
        """Draw the variance of every column, given all the others, in random order."""
        n = len(self.variances)
        matter = int(np.count_nonzero(self.variances))
        prior = self._rng.beta(1 + matter, 2 * self._n_features - matter)
        self._log_odds = np.log(prior) - np.log1p(-prior) - np.log(len(self._slabs))
        found = np.zeros(n)
        waiting = self._rng.permutation(n)
        ahead = _AHEAD
        while len(waiting) > 0:
            # Some are looked at together: they see the same state, up to the first that changes it.
            some = waiting[:ahead]
            shares = self._shares(*self._without(some))
            found[some] = 1.0 - shares[:, 0]
            drawn = np.r_[0.0, self._slabs][_drawn(shares, self._rng)]
            changes = np.flatnonzero(drawn != self.variances[some])
            passed = len(some)
            ahead *= 2
            if len(changes) > 0:
                first = int(changes[0])
                self._change(int(some[first]), float(drawn[first]))
                passed, ahead = first + 1, _AHEAD
            waiting = waiting[passed:]
        return found

    def _exchange(self) -> None:
        """Let some columns that matter be replaced by whichever tell as much."""
        matters = np.flatnonzero(self.variances)
        for _ in range(min(len(matters), _EXCHANGES)):
            self._change(int(self._rng.choice(np.flatnonzero(self.variances))), 0.0)
            free = np.flatnonzero(self.variances == 0.0)
            log = self._log_likelihoods(*self._without(free))[:, 1:]
            shares = np.exp(log - np.max(log)).ravel()
            index = _drawn((shares / np.sum(shares))[None], self._rng)[0]
            entering, variance = divmod(int(index), len(self._slabs))
            self._change(int(free[entering]), float(self._slabs[variance]))

    # ---- likelihoods ------------------------------------------------------------------------

    def _shares(self, grams: Array, slopes: Array, rests: Array) -> Array:
        """Return the probabilities of absence and of each variance, for each column."""
        log = self._log_likelihoods(grams, slopes, rests)
        log[:, 1:] += self._log_odds
        shares = np.exp(log - np.max(log, axis=1, keepdims=True))
        return np.asarray(shares / np.sum(shares, axis=1, keepdims=True))

    def _log_likelihoods(self, grams: Array, slopes: Array, rests: Array) -> Array:
        least = _LEAST_NOISE * self._square
        return log_likelihoods(grams, slopes, rests, self._n, self._slabs, least)

    # ---- the state --------------------------------------------------------------------------

    def _without(self, columns: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """Return Gram matrices, slopes and rests of columns, each as if it did not matter."""
        v = self.variances[columns, None, None]
        grams, slopes = self._grams[columns], self._slopes[columns]
        rests = np.full(len(columns), self._rest)
        matters = np.flatnonzero(v)
        if len(matters) > 0:
            v, gram, slope = v[matters], grams[matters], slopes[matters]
            inverses = np.linalg.inv(np.eye(gram.shape[1]) - v * gram)
            without = inverses @ gram
            grams[matters] = 0.5 * (without + without.transpose(0, 2, 1))
            slopes[matters] = inverses @ slope
            rests[matters] += np.sum(v * slope * slopes[matters], axis=(1, 2))
        return grams, slopes, rests

    def _change(self, d: int, variance: float) -> None:
        """Give a column another variance: an update of the rank of its components."""
        change = variance - self.variances[d]
        if change == 0.0:
            return
        gram, slope = self._grams[d], self._slopes[d].copy()
        middle = change * linalg.inv(np.eye(len(gram)) + change * gram, check_finite=False)
        middle = 0.5 * (middle + middle.T)
        PZ = self._P @ self._shapes[:, d]
        across = (self._flat.T @ PZ).reshape(len(self.variances), -1, len(gram))
        step = across @ middle
        self._P -= PZ @ middle @ PZ.T
        self._grams -= step @ across.transpose(0, 2, 1)
        self._slopes -= step @ slope
        self._rest -= float(np.sum(slope * (middle @ slope)))
        self.variances[d] = variance

    def _refresh(self) -> None:
        """Compute `P = (I + sum of v Z Z^T)^-1`, and what follows from it, anew."""
        matters = np.flatnonzero(self.variances)
        Z = self._shapes[:, matters] * np.sqrt(self.variances[matters])[:, None]
        Z = Z.reshape(len(Z), -1)
        self._P = np.eye(len(Z))
        if len(matters) > 0:
            inner = np.eye(Z.shape[1]) + Z.T @ Z
            self._P -= Z @ linalg.solve(inner, Z.T, assume_a="pos", check_finite=False)
        PZ = (self._P @ self._flat).reshape(self._shapes.shape)
        self._grams = np.einsum("nda,ndb->dab", self._shapes, PZ)
        self._slopes = np.einsum("nda,nq->daq", PZ, self._Y)
        self._rest = self._square - float(np.sum(self._Y * (self._Y - self._P @ self._Y)))


def log_likelihoods(
    grams: Array, slopes: Array, rests: Array, n: int, slabs: Array, least: float
) -> Array:
    """Return the logarithms of the likelihoods of absence and of each variance, for each column.

    Under `C = P^-1 + v Z Z^T` the determinant grows by that of `I + v Z^T P Z`, and `y^T C^-1 y`
    falls by `v b^T (I + v Z^T P Z)^-1 b` with `b = Z^T P y`; it is kept above `least`.
    """
    n_outputs = slopes.shape[2]
    nodes, vectors = np.linalg.eigh(grams)
    nodes = np.maximum(nodes, 0.0)
    squares = np.sum(np.matmul(vectors.transpose(0, 2, 1), slopes) ** 2, axis=2)
    grown = 1.0 + slabs[:, None, None] * nodes
    fits = np.sum(slabs[:, None, None] * squares / grown, axis=2)
    rest = np.concatenate([rests[None], rests - fits])
    log = -0.5 * (n - 1) * n_outputs * np.log(np.maximum(rest, least))
    log[1:] -= 0.5 * n_outputs * np.sum(np.log(grown), axis=2)
    return np.asarray(log.T)


def gains_alone(shapes: Array, Y: Array, square: float) -> Array:
    """Return by how much the likeliest variance of each column alone is likelier than none."""
    n = len(Y)
    grams = np.einsum("nda,ndb->dab", shapes, shapes)
    slopes = np.einsum("nda,nq->daq", shapes, Y)
    rests, least = np.full(len(grams), square), _LEAST_NOISE * square
    log = log_likelihoods(grams, slopes, rests, n, slab_variances(n), least)
    return np.asarray(np.max(log[:, 1:], axis=1) - log[:, 0])


def _drawn(shares: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return an index drawn by each row of probabilities."""
    below = np.cumsum(shares, axis=1) < rng.random((len(shares), 1))
    return np.asarray(np.minimum(np.sum(below, axis=1), shares.shape[1] - 1))


def rotated(grams: Array, slopes: Array) -> tuple[Array, Array]:
    """Return as few rows as there are components, with given products among all of them.

    Products of components with one another, and with targets, are summed over all rows.
    """
    nodes, vectors = linalg.eigh(grams, check_finite=False)
    kept = nodes > 1e-12 * nodes[-1]
    roots = np.sqrt(nodes[kept])
    return (roots * vectors[:, kept]).T, (vectors[:, kept].T @ slopes) / roots[:, None]


def least_false(probabilities: Array, rate: float) -> NDArray[np.bool_]:
    """Return the largest set of most probable columns with few expected false ones."""
    order = np.argsort(-probabilities, kind="stable")
    shares = np.cumsum(1.0 - probabilities[order]) / np.arange(1, len(order) + 1)
    chosen = np.zeros(len(order), dtype=np.bool_)
    chosen[order[: int(np.sum(shares <= rate))]] = True
    return chosen
