from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, final, overload

import numpy as np
from numpy.typing import NDArray

_Float64: TypeAlias = NDArray[np.float64]
_Csr: TypeAlias = tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64], int]
_Histograms: TypeAlias = NDArray[Any] | _Csr
_Codes: TypeAlias = NDArray[np.uint8] | NDArray[np.uint16]
_Targets: TypeAlias = tuple[NDArray[np.int32], _Float64, NDArray[np.int32]]
_CsrParts: TypeAlias = tuple[_Float64, NDArray[np.int32], NDArray[np.int64]]
_Part: TypeAlias = tuple[NDArray[np.float32], tuple[int, int], tuple[float, float, float, float]]

__all__ = [
    "AdditiveMap",
    "CoordinateDescent",
    "CubicFunctions",
    "DistanceKernel",
    "DistanceScores",
    "ExpChi2Features",
    "KnotProjection",
    "LevelCounts",
    "LookupTable",
    "LowRankInverse",
    "Model",
    "PartModel",
    "ShapeFunctions",
    "SortedColumns",
    "SparseAdditiveMap",
    "StoredDistances",
    "StoredMinima",
    "Transform",
    "__version__",
    "additive_chi2_gram",
    "airm_distances",
    "airm_paired",
    "candidate_values",
    "check_finite",
    "check_histograms",
    "check_masses",
    "chi2_distances",
    "column_quantiles",
    "column_ranges",
    "compression_loss",
    "cubic_spline_gram",
    "dispersion_mean",
    "distance_transform",
    "emd_distances",
    "emd_pairs",
    "emd_plan",
    "exp_chi2_gram",
    "group_lasso_path",
    "hellinger_gram",
    "histogram_compression_loss",
    "hog_pyramid",
    "instruction_set",
    "instruction_sets",
    "intersection_gram",
    "jbld_distances",
    "jbld_paired",
    "jensen_shannon_gram",
    "k_means",
    "level_codes",
    "level_forms",
    "level_scores",
    "level_sums",
    "minmax_distances",
    "minmax_gram",
    "most_threads",
    "nearest_centers",
    "needed_prototypes",
    "quantization_decode",
    "quantization_encode",
    "quantization_neighbors",
    "quantization_scores",
    "quantization_scores_into",
    "quantization_sums",
    "relaxed_distances",
    "row_sums",
    "signal_covariances",
    "sinkhorn_barycenters",
    "sinkhorn_distances",
    "sinkhorn_pairs",
    "sparse_codes",
    "start_threads",
    "svm_epoch",
    "svm_line_losses",
    "svm_line_minima",
    "svm_line_step",
    "svm_scores",
    "svm_simplex_maximum",
    "tangent_vectors",
    "transform_rows",
]

__version__: str

def start_threads(n_threads: int) -> int: ...
def instruction_set() -> str: ...
def instruction_sets() -> list[str]: ...
def most_threads() -> int: ...
def nearest_centers(
    x: NDArray[Any], centers: NDArray[Any], n_threads: int
) -> NDArray[np.int32]: ...
def k_means(
    x: NDArray[Any], n_centers: int, seed: int, max_iter: int, tol: float, n_threads: int
) -> tuple[NDArray[Any], NDArray[np.int32], float, int]: ...
def candidate_values(
    rows: NDArray[Any],
    queries: NDArray[Any],
    candidates: NDArray[np.int64],
    inner: bool,
    n_threads: int,
) -> NDArray[Any]: ...
def check_finite(x: _Histograms, n_threads: int) -> None: ...
def check_histograms(x: _Histograms, n_threads: int) -> None: ...
def check_masses(x: _Histograms, y: _Histograms | None, n_threads: int) -> None: ...
def row_sums(x: _Histograms, n_threads: int) -> _Float64: ...
def intersection_gram(x: _Histograms, y: _Histograms | None, n_threads: int) -> NDArray[Any]: ...
def cubic_spline_gram(x: _Histograms, y: _Histograms | None, n_threads: int) -> NDArray[Any]: ...
def minmax_gram(x: _Histograms, y: _Histograms | None, n_threads: int) -> NDArray[Any]: ...
def minmax_distances(x: _Histograms, y: _Histograms | None, n_threads: int) -> NDArray[Any]: ...
def jbld_distances(x: NDArray[Any], y: NDArray[Any] | None, n_threads: int) -> NDArray[Any]: ...
def jbld_paired(x: NDArray[Any], y: NDArray[Any], n_threads: int) -> NDArray[Any]: ...
def airm_distances(x: NDArray[Any], y: NDArray[Any] | None, n_threads: int) -> NDArray[Any]: ...
def airm_paired(x: NDArray[Any], y: NDArray[Any], n_threads: int) -> NDArray[Any]: ...
def tangent_vectors(
    x: NDArray[Any], whitener: NDArray[np.float64] | None, n_threads: int
) -> NDArray[Any]: ...
def dispersion_mean(
    x: NDArray[Any],
    weights: NDArray[np.float64],
    dispersion: str,
    start: NDArray[np.float64] | None,
    tol: float,
    max_iter: int,
    n_threads: int,
) -> tuple[NDArray[np.float64], int, float]: ...
def signal_covariances(
    x: NDArray[Any], shrinkage: float | str, n_threads: int
) -> tuple[NDArray[Any], list[tuple[int, int]]]: ...
def compression_loss(
    x: _Float64,
    labels: NDArray[np.int64],
    prototypes: _Float64,
    prototype_labels: NDArray[np.int64],
    weights: _Float64 | None,
    gamma: float,
    n_threads: int,
) -> tuple[float, _Float64, _Float64]: ...
def needed_prototypes(
    distances: NDArray[Any],
    labels: NDArray[np.int64],
    prototype_labels: NDArray[np.int64],
    weights: _Float64 | None,
    n_threads: int,
) -> NDArray[np.bool_]: ...
def sinkhorn_distances(
    x: _Histograms,
    y: _Histograms | None,
    m: _Float64 | list[_Float64],
    reg: float,
    tol: float,
    max_iter: int,
    regularized: bool,
    potentials: bool,
    n_threads: int,
) -> tuple[NDArray[Any], _Float64, NDArray[np.uintp], tuple[_Float64, _Float64] | None]: ...
def relaxed_distances(
    x: _Histograms,
    y: _Histograms | None,
    m: _Float64,
    reg: float,
    penalties: tuple[float, float] | None,
    mass: float | None,
    tol: float,
    max_iter: int,
    cost: str,
    potentials: bool,
    n_threads: int,
) -> tuple[NDArray[Any], _Float64, NDArray[np.uintp], tuple[_Float64, _Float64] | None]: ...
def sinkhorn_pairs(
    x: _Histograms,
    y: _Histograms,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    starts: NDArray[np.float32] | None,
    m: _Float64 | list[_Float64],
    reg: float,
    tol: float,
    max_iter: int,
    regularized: bool,
    n_threads: int,
) -> tuple[NDArray[Any], _Float64]: ...
def sinkhorn_barycenters(
    x: _Histograms,
    weights: _Float64,
    m: _Float64 | list[_Float64],
    reg: float,
    tol: float,
    max_iter: int,
    debiased: bool,
    n_threads: int,
) -> tuple[_Float64, _Float64, NDArray[np.uintp]]: ...
def emd_distances(
    x: _Histograms, y: _Histograms | None, m: _Float64, n_threads: int
) -> NDArray[Any]: ...
def emd_pairs(
    x: _Histograms,
    y: _Histograms,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    m: _Float64,
    n_threads: int,
) -> NDArray[Any]: ...
def emd_plan(a: _Float64, b: _Float64, m: _Float64, n_threads: int) -> _Float64 | None: ...
def histogram_compression_loss(
    x: _Histograms,
    labels: NDArray[np.int64],
    prototypes: _Histograms,
    prototype_labels: NDArray[np.int64],
    weights: _Float64 | None,
    m: _Float64 | list[_Float64],
    reg: float,
    gamma: float,
    tol: float,
    max_iter: int,
    starts: NDArray[np.float32] | None,
    n_threads: int,
) -> tuple[float, _Float64, float]: ...
def chi2_distances(x: _Histograms, y: _Histograms | None, n_threads: int) -> NDArray[Any]: ...
def additive_chi2_gram(x: _Histograms, y: _Histograms | None, n_threads: int) -> NDArray[Any]: ...
def exp_chi2_gram(
    x: _Histograms, y: _Histograms | None, gamma: float, n_threads: int
) -> NDArray[Any]: ...
def hellinger_gram(x: _Histograms, y: _Histograms | None, n_threads: int) -> NDArray[Any]: ...
def jensen_shannon_gram(x: _Histograms, y: _Histograms | None, n_threads: int) -> NDArray[Any]: ...
def column_ranges(x: _Histograms, n_threads: int) -> tuple[_Float64, _Float64]: ...

@final
class AdditiveMap:
    @staticmethod
    def rational(poles: _Float64) -> AdditiveMap: ...
    @staticmethod
    def chebyshev(n_components: int) -> AdditiveMap: ...
    @staticmethod
    def periodic(n_components: int, sample_interval: float) -> AdditiveMap: ...
    @overload
    def transform(self, x: NDArray[Any], n_threads: int) -> NDArray[Any]: ...
    @overload
    def transform(self, x: _Csr, n_threads: int) -> _Csr: ...

@final
class SparseAdditiveMap:
    def __new__(
        cls, kernel: str, knots: _Float64, offsets: NDArray[np.int64]
    ) -> SparseAdditiveMap: ...
    def transform(self, x: _Histograms, n_threads: int) -> _Csr: ...

def column_quantiles(
    x: _Histograms, n_levels: int, n_threads: int
) -> tuple[_Float64, NDArray[np.int64]]: ...
def sparse_codes(
    k_xz: _Float64, k_zz: _Float64, n_nonzero: int, selection: str, n_threads: int
) -> _Csr: ...

@final
class ExpChi2Features:
    @staticmethod
    def structured(
        map: AdditiveMap, n_columns: int, signs: NDArray[np.int8], n_projections: int, gamma: float
    ) -> ExpChi2Features: ...
    @staticmethod
    def dense(
        map: AdditiveMap, n_columns: int, matrix: _Float64, gamma: float
    ) -> ExpChi2Features: ...
    @staticmethod
    def structured_size(map: AdditiveMap, n_columns: int) -> int: ...
    def transform(
        self, x: _Histograms, n_threads: int, out: NDArray[Any] | None
    ) -> NDArray[Any]: ...
    def scores(
        self, x: _Histograms, coefficients: _Float64, intercepts: _Float64, n_threads: int
    ) -> NDArray[Any]: ...

def transform_rows(
    x: _Histograms, transform: Transform, weights: _Float64 | None, n_threads: int
) -> _Float64 | _CsrParts: ...

@final
class Transform:
    def __new__(cls, name: str, exponent: float) -> Transform: ...
    def exponent_slope(self, smallest: float) -> tuple[Transform, float] | None: ...

@final
class LevelCounts:
    def __new__(
        cls,
        codes: NDArray[np.uint16],
        n_levels: list[int],
        weights: _Float64 | None,
        n_threads: int,
    ) -> LevelCounts: ...
    def normal_matrix(self, functions: list[_Float64], n_threads: int) -> _Float64: ...

def level_sums(
    codes: NDArray[np.uint16], n_levels: list[int], v: _Float64, n_threads: int
) -> _Float64: ...
def level_scores(
    codes: NDArray[np.uint16], n_levels: list[int], tables: _Float64, n_threads: int
) -> _Float64: ...
def level_codes(
    x: NDArray[Any], columns: list[tuple[int, _Float64]], n_threads: int
) -> NDArray[np.uint16]: ...
def level_forms(
    codes: NDArray[np.uint16], n_levels: list[int], q: _Float64, n_threads: int
) -> _Float64: ...

@final
class DistanceKernel:
    def __new__(
        cls,
        is_l1: bool,
        n_numbers: int,
        weights: list[float],
        laplace: list[float],
        matern: list[float],
        amplitudes: list[float],
    ) -> DistanceKernel: ...
    def matrix(self, x: _Float64, y: _Float64 | None, n_threads: int) -> _Float64: ...
    def slopes(self, x: _Float64, g: _Float64, n_threads: int) -> tuple[_Float64, _Float64]: ...
    def stored(self, x: _Float64, factor: _Float64, n_threads: int) -> StoredDistances: ...

@final
class DistanceScores:
    def __new__(
        cls, kernel: DistanceKernel, rows: _Float64, weights: _Float64, singles: NDArray[np.float32]
    ) -> DistanceScores: ...
    def evaluate(self, x: _Float64, n_threads: int) -> _Float64: ...

@final
class StoredDistances:
    def product(self, v: _Float64, n_threads: int) -> _Float64: ...
    def mean_rest(self) -> float: ...
    def n_bytes(self) -> int: ...

@final
class StoredMinima:
    def __new__(cls, x: _Histograms, n_threads: int) -> StoredMinima: ...
    def product(
        self, minmax: float, intersection: float, v: _Float64, n_threads: int
    ) -> _Float64: ...
    def n_bytes(self) -> int: ...

@final
class SortedColumns:
    def __new__(cls, x: _Histograms, n_threads: int) -> SortedColumns: ...
    def transformed(
        self, transform: Transform, weights: _Float64 | None, n_threads: int
    ) -> SortedColumns: ...
    def insert(self, x: _Histograms, n_threads: int) -> SortedColumns: ...
    def remove(self, rows: NDArray[np.int64], n_threads: int) -> SortedColumns: ...
    def quadratic_forms(self, v: _Float64, n_threads: int) -> _Float64: ...
    def row_sums(self, n_threads: int) -> _Float64: ...
    def spreads(self, n_threads: int) -> _Float64: ...
    def inverse_spreads(self, n_threads: int) -> _Float64: ...
    def smallest(self) -> float: ...
    def product(self, v: _Float64, n_threads: int) -> _Float64: ...
    def cubic_product(self, v: _Float64, slope: float, n_threads: int) -> _Float64: ...
    def product_f32(self, v: _Float64, n_threads: int) -> _Float64: ...
    def cross_product(self, x: _Histograms, v: _Float64, n_threads: int) -> _Float64: ...
    def maxima(self) -> _Float64: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_columns(self) -> int: ...
    @property
    def n_stored(self) -> int: ...
    @property
    def n_knots(self) -> int: ...
    @property
    def n_bytes(self) -> int: ...

@final
class ShapeFunctions:
    def __new__(cls, columns: SortedColumns, alpha: _Float64, n_threads: int) -> ShapeFunctions: ...
    def evaluate(self, x: _Histograms, n_threads: int) -> _Float64: ...
    def evaluate_transformed(
        self, x: _Histograms, transform: Transform, weights: _Float64 | None, n_threads: int
    ) -> _Float64: ...
    def column(self, d: int) -> tuple[_Float64, _Float64]: ...
    def intercepts_and_slopes(self, d: int) -> tuple[_Float64, _Float64]: ...

@final
class CubicFunctions:
    def __new__(
        cls,
        columns: SortedColumns,
        alpha: _Float64,
        slope: float,
        n_knots: int | None,
        n_threads: int,
    ) -> CubicFunctions: ...
    def evaluate(self, x: _Histograms, n_threads: int) -> _Float64: ...
    def column(self, d: int) -> tuple[_Float64, _Float64]: ...

@final
class Model:
    def __new__(cls, content: bytes) -> Model: ...
    def predict(self, x: NDArray[Any], n_threads: int) -> _Float64: ...
    def predict_proba(self, x: NDArray[Any], n_threads: int) -> _Float64: ...

@final
class LookupTable:
    def __new__(
        cls,
        columns: SortedColumns,
        alpha: _Float64,
        n_bins: int,
        interpolation: Literal["linear", "nearest"],
        n_threads: int,
    ) -> LookupTable: ...
    @staticmethod
    def compact(
        columns: SortedColumns,
        alpha: _Float64,
        n_bins: int,
        weights: _Float64 | None,
        n_threads: int,
    ) -> LookupTable: ...
    def evaluate_bytes(self, x: NDArray[np.uint8], n_threads: int) -> _Float64: ...
    @property
    def is_compact(self) -> bool: ...
    def evaluate(self, x: _Histograms, n_threads: int) -> _Float64: ...
    def error_bound(self) -> _Float64: ...
    @property
    def n_bytes(self) -> int: ...

def hog_pyramid(
    image: NDArray[np.float32], cell_size: int, scales: _Float64, padding: int, n_threads: int
) -> tuple[NDArray[np.float32], list[tuple[int, int]]]: ...
def distance_transform(
    scores: NDArray[np.float32], deformation: tuple[float, float, float, float]
) -> tuple[_Float64, NDArray[np.int32]]: ...

@final
class PartModel:
    def __new__(
        cls, components: Sequence[tuple[NDArray[np.float32], float, Sequence[_Part]]]
    ) -> PartModel: ...
    def placements(
        self,
        cells: NDArray[np.float32] | _Codes,
        levels: tuple[list[tuple[int, int]], int, int],
        threshold: float,
        n_threads: int,
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]: ...

def group_lasso_path(
    moments: tuple[_Float64, _Float64, _Float64],
    groups: tuple[NDArray[np.int64], _Float64],
    penalties: list[tuple[float, float]],
    positive: bool,
    start: _Float64,
    tol: float,
    max_iter: int,
    n_threads: int,
) -> tuple[_Float64, _Float64, NDArray[np.int64]]: ...
def svm_epoch(
    x: _Histograms,
    signs: _Float64,
    weights: _Float64,
    order: NDArray[np.int64],
    coef: _Float64,
    steps: tuple[float, float, float, float],
    n_threads: int,
) -> _Float64: ...
def svm_scores(
    x: _Histograms, coef: _Float64, units: tuple[_Float64, _Float64] | None, n_threads: int
) -> NDArray[Any]: ...
def svm_line_losses(
    loss: str, start: _Float64, end: _Float64, targets: _Targets, points: _Float64, n_threads: int
) -> tuple[_Float64, _Float64]: ...
def svm_line_minima(
    loss: str,
    start: _Float64,
    end: _Float64,
    targets: _Targets,
    norms: tuple[_Float64, _Float64, _Float64],
    values: _Float64,
    n_threads: int,
) -> tuple[_Float64, _Float64]: ...
def svm_line_step(
    loss: str,
    start: _Float64,
    end: _Float64,
    targets: _Targets,
    best: _Float64,
    cut: _Float64,
    n_threads: int,
) -> tuple[_Float64, _Float64]: ...
def svm_simplex_maximum(
    h: _Float64, b: _Float64, alpha: _Float64, tol: float, max_steps: int, n_threads: int
) -> tuple[_Float64, float]: ...
def quantization_encode(
    x: _Histograms,
    codebooks: NDArray[Any],
    offsets: NDArray[np.int64],
    metric: str,
    wide: bool,
    n_threads: int,
) -> _Codes: ...
def quantization_decode(
    codes: _Codes,
    codebooks: NDArray[Any],
    offsets: NDArray[np.int64],
    n_columns: int,
    n_threads: int,
) -> NDArray[Any]: ...
def quantization_neighbors(
    codes: _Codes,
    tables: NDArray[Any],
    biases: NDArray[Any],
    lists: tuple[NDArray[np.int64], NDArray[np.bool_]] | None,
    n_neighbors: int,
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[Any]]: ...
def quantization_scores(codes: _Codes, tables: NDArray[Any], n_threads: int) -> _Float64: ...
def quantization_scores_into(
    codes: _Codes, tables: NDArray[Any], out: _Float64, n_threads: int
) -> None: ...
def quantization_sums(
    codes: _Codes, n_codes: int, weights: _Float64, n_threads: int
) -> _Float64: ...

@final
class KnotProjection:
    def __new__(cls, columns: SortedColumns, n_knots: int, n_threads: int) -> KnotProjection: ...
    def of_rows(self, columns: SortedColumns, n_threads: int) -> KnotProjection: ...
    def concatenate(self, other: KnotProjection, n_threads: int) -> KnotProjection: ...
    def select(self, rows: NDArray[np.int64], n_threads: int) -> KnotProjection: ...
    def inverse_kernel(self) -> tuple[_Float64, _Float64]: ...
    def gram(self, n_threads: int) -> _Float64: ...
    def weighted_gram(self, weights: _Float64, n_threads: int) -> _Float64: ...
    def project(self, v: _Float64, n_threads: int) -> _Float64: ...
    def expand(self, w: _Float64, n_threads: int) -> _Float64: ...
    @property
    def n_features(self) -> int: ...

@final
class CoordinateDescent:
    def __new__(cls, columns: SortedColumns, n_threads: int) -> CoordinateDescent: ...
    def descend(
        self, alpha: _Float64, y: _Float64, s: _Float64, order: NDArray[np.int64], n_threads: int
    ) -> _Float64: ...

@final
class LowRankInverse:
    def __new__(
        cls,
        factor_transposed: NDArray[np.float32] | _Float64,
        root: _Float64 | None,
        s: float,
        n_threads: int,
    ) -> LowRankInverse: ...
    def factor_transposed(self) -> NDArray[Any]: ...
    def apply(self, v: _Float64, n_threads: int) -> _Float64: ...
    def apply_f32(self, v: _Float64, n_threads: int) -> _Float64: ...
