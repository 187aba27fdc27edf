"""Terms of kernels, a file each: what two rows have in common, and how that follows parameters."""
