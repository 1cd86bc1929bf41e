"""The four TensorFlow benchmarks of "TensorFlow Doing HPC" (Chien et al., IPDPSW 2019), simulated on one switch.

The paper gives the gain from 2 to 4 GPUs: 2.0 for the matrix product, 1.7 for CG, 1.8 for FFT. A ratio fixes what does not scale; what
happens beyond 4 GPUs, or when the reducer gives way to collectives, is then a prediction.

python examples/tensorflow_on_hpc.py [PICTURE.svg]
"""

import itertools
import math
import sys

import netsim as ns
from netsim.traffic import Protocol
from netsim.traffic.workloads import build

RATE, LATENCY, WORKERS = 6e9, 2e-6, (2, 4, 8, 16)  # bytes/s and seconds between two hosts
CG_ROWS, FFT_POINTS, FFT_TILES = 32768, 26, 64


def time_s(spec, ranks):
    """Simulated time of one run on a switch that never blocks."""
    star = ns.topologies.star(n=ranks, capacity=RATE, latency=LATENCY / 2)
    return ns.replay(
        build(spec, n_ranks=ranks), topology=star, protocol=Protocol.ideal(), collectives="nccl"
    ).makespan_s


def cg(queue, p, kind="reducer"):
    ranks = p if kind == "ring" else p + 1
    return time_s(f"tf-cg:n={CG_ROWS},iterations=5,queue={queue}s,collective={kind}", ranks)


def fft(flops, p):
    return time_s(f"tf-fft:log2_points={FFT_POINTS},tiles={FFT_TILES},flops_per_s={flops}", p + 1)


# CG: the queue of the reducer, three times in each of the 5 iterations, such that T(2) / T(4) is 1.7.
queue = (cg(0, 2) - 1.7 * cg(0, 4)) / 0.7 / (3 * 5)
# FFT: the speed of a worker such that the incast into the reducer is a fifth of T(4).
points = 2**FFT_POINTS // FFT_TILES
floor = 16 * 2**FFT_POINTS / RATE
flops = FFT_TILES / 4 * 5 * points * math.log2(points) / (4 * floor)
curves = {
    "matrix product": [time_s("tf-matmul:n=32768,tile=4096", p + 2) for p in WORKERS],
    "CG": [cg(queue, p) for p in WORKERS],
    "CG, collectives instead of the reducer": [cg(0, p, "ring") for p in WORKERS],
    "FFT": [fft(flops, p) for p in WORKERS],
}
print(f"calibrated: queue of the CG reducer {1e6 * queue:.0f} us per round trip, FFT worker {flops / 1e9:.1f} Gflop/s")
print(f"{'gain from':<40}" + "".join(f"{a:>4} to {b:<3}" for a, b in itertools.pairwise(WORKERS)))
for name, times in curves.items():
    print(f"{name:<40}" + "".join(f"{a / b:>8.2f}   " for a, b in itertools.pairwise(times)))
sizes = (10**4, 10**6, 128 * 10**6)
stream = [4 * size / time_s(f"tf-stream:size={size}B,iterations=4,overhead=20us", 2) for size in sizes]
print(
    "STREAM, 20 us per message: "
    + ", ".join(f"{s / 1e6:g} MB {r / 1e9:.2f} GB/s" for s, r in zip(sizes, stream, strict=True))
)

if len(sys.argv) > 1:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    for (name, times), mark in zip(curves.items(), "osD^", strict=True):
        axes.plot(WORKERS, [times[0] / t for t in times], marker=mark, label=name)
    axes.plot(WORKERS, [p / 2 for p in WORKERS], color="0.6", linestyle=":", label="ideal")
    axes.axvspan(2, 4, color="0.93", zorder=0)
    axes.annotate("calibrated", (2.83, 7.4), ha="center", color="0.45", fontsize=9)
    axes.annotate("predicted", (8, 7.4), ha="center", color="0.45", fontsize=9)
    axes.set(xscale="log", xlabel="workers (GPUs)", ylabel="speed beside 2 workers", ylim=(0, 8.2))
    axes.set_xticks(WORKERS, [str(p) for p in WORKERS])
    axes.minorticks_off()
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.88), fontsize=9)
    figure.savefig(sys.argv[1], dpi=150)
    print(f"wrote {sys.argv[1]}")
