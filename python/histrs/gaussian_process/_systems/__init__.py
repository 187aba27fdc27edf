"""Linear systems `K + s I` of bound kernels: how they are solved, and how their rows change."""
