"""Ground layer: errors, units, registries, random streams, frozen arrays, compiled kernels."""
