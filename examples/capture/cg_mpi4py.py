"""Conjugate gradients for the five-point Poisson problem on a process grid: halo exchange and two dot products per iteration.

mpiexec -n 8 python cg_mpi4py.py [POINTS_PER_SIDE] [ITERATIONS]
"""

import sys

import numpy as np
from mpi4py import MPI

side = int(sys.argv[1]) if len(sys.argv) > 1 else 128
iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 220
world = MPI.COMM_WORLD
dims = MPI.Compute_dims(world.size, 2)
grid = world.Create_cart(dims, periods=[False, False])
(north, south), (west, east) = grid.Shift(0, 1), grid.Shift(1, 1)
rows, columns = (side * (c + 1) // d - side * c // d for c, d in zip(grid.coords, dims, strict=True))


def apply(x):
    """The matrix times x: neighbours' rows and columns first, then the stencil."""
    halo = np.zeros((rows + 2, columns + 2))
    halo[1:-1, 1:-1] = x
    incoming = {north: np.zeros(columns), south: np.zeros(columns), west: np.zeros(rows), east: np.zeros(rows)}
    requests = [grid.Irecv(buffer, source) for source, buffer in incoming.items() if source != MPI.PROC_NULL]
    for peer, edge in ((north, x[0]), (south, x[-1]), (west, x[:, 0]), (east, x[:, -1])):
        if peer != MPI.PROC_NULL:
            requests.append(grid.Isend(np.ascontiguousarray(edge), peer))
    MPI.Request.Waitall(requests)
    for peer, place in (
        (north, np.s_[0, 1:-1]),
        (south, np.s_[-1, 1:-1]),
        (west, np.s_[1:-1, 0]),
        (east, np.s_[1:-1, -1]),
    ):
        if peer != MPI.PROC_NULL:
            halo[place] = incoming[peer]
    return 4 * x - halo[:-2, 1:-1] - halo[2:, 1:-1] - halo[1:-1, :-2] - halo[1:-1, 2:]


def dot(a, b):
    """Sum over all ranks."""
    total = np.empty(1)
    grid.Allreduce(np.array([(a * b).sum()]), total)
    return total[0]


solution = np.zeros((rows, columns))
residual = np.ones((rows, columns))
direction = residual.copy()
rho = first = dot(residual, residual)
for _ in range(iterations):
    image = apply(direction)
    alpha = rho / dot(direction, image)
    solution += alpha * direction
    residual -= alpha * image
    rho, before = dot(residual, residual), rho
    direction = residual + rho / before * direction
if world.rank == 0:
    shrunk = np.sqrt(rho / first)
    print(
        f"{side} x {side} points on {dims[0]} x {dims[1]} ranks, {iterations} iterations: residual {shrunk:.3e} of the first"
    )
