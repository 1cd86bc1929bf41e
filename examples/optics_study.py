"""What optical circuits are worth to the communication of DOE mini-apps, on three networks, at a thousand hosts.

python examples/optics_study.py [--ranks 1000] [--picture study.svg]

Each workload is replayed without local work: electrical only; with the money for the optical ports spent on electrical links instead
(upgrade); with circuits where traffic is heaviest, always lit (hottest); with E-EFI knowing the last window only (measured), and with
E-EFI knowing what comes (oracle). Tables, a rank correlation of load and time, and a picture.
"""

import argparse

import numpy as np

from netsim.core.errors import InputError
from netsim.study import compare_optics
from netsim.topologies import build as network
from netsim.traffic.workloads import build as workload

WORKLOADS = {
    "AMG": "amg",
    "MiniFE": "minife",
    "LULESH": "lulesh",
    "Nekbone": "nekbone",
    "CrystalRouter": "crystal-router",
    "FFT": "fft",
    "halo 3D": "halo3d",
}
NETWORKS = ("dragonfly", "fat_tree", "torus")
ARMS = ("electrical", "upgrade", "hottest", "measured", "oracle")


def made(name, ranks, iterations):
    """The workload at the largest number of ranks up to the given one that it takes."""
    for n in range(ranks, 0, -1):
        try:
            return workload(f"{name}:iterations={iterations}", n_ranks=n)
        except InputError as error:
            if "iterations" in str(error):
                raise
    raise SystemExit(f"{name}: no number of ranks up to {ranks} will do")


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--ranks", type=int, default=1000)
    words.add_argument("--iterations", type=int, default=5)
    words.add_argument("--optics", default="eefi:ports=4,delay=20us")
    words.add_argument("--picture")
    chosen = words.parse_args()
    rows = []
    print(
        f"{'workload':<14} {'network':<10} {'ranks':>5} {'comm. time':>11} {'share':>6} |"
        + "".join(f"{arm:>11}" for arm in ARMS[1:])
        + " | electrical load  bytes on circuits"
    )
    for name, spec in WORKLOADS.items():
        work = made(spec, chosen.ranks, chosen.iterations)
        trace = work.trace()
        for family in NETWORKS:
            net = network(family, n_hosts=trace.n_ranks)
            arms, results = compare_optics(trace, topology=net, optics=chosen.optics, arms=ARMS, gaps="none", seed=1)
            base, best = results[0], arms[-1]
            sent = base.summary["network_bytes"]
            rate = float(net.link_capacity_bytes_per_s[net.link_src < net.n_hosts].max())
            share = sent / (trace.n_ranks * rate * best.makespan_s)
            gains = {arm.name: arm.gain for arm in arms}
            rows.append((name, family, gains, best.fullest_s / max(arms[0].fullest_s, 1e-300), share))
            print(
                f"{name:<14} {family:<10} {trace.n_ranks:>5} {1e3 * base.makespan_s:>8.3f} ms {share:>6.1%} |"
                + "".join(f"{changed(-gains[arm]):>11}" for arm in ARMS[1:])
                + f" | {best.fullest_s / max(arms[0].fullest_s, 1e-300) - 1:>+15.1%}  {best.optical_bytes / max(sent, 1):>17.1%}",
                flush=True,
            )
    for family in NETWORKS:
        mine = [gains["oracle"] for _, where, gains, _, _ in rows if where == family]
        saved = f"10 % or more of the communication time on {sum(g >= 0.1 for g in mine)} of {len(mine)} workloads"
        print(f"{family}: E-EFI that knows what comes saves {saved}, and at worst {min(mine):.1%}")
    load, time = np.array([r[3] for r in rows]), np.array([1 - r[2]["oracle"] for r in rows])
    print(
        f"rank correlation of the fullest link's load with the time, both beside electrical only: {rank_correlation(load, time):.2f}"
    )
    if chosen.picture:
        draw(rows, chosen.picture)
        print(f"wrote {chosen.picture}")


def changed(part):
    """A change in percent, without the sign of nothing."""
    return f"{part:+.1%}" if abs(part) >= 5e-4 else "0.0%"


def rank_correlation(x, y):
    """Spearman's, ties by mean ranks."""
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic) if np.ptp(x) > 0 and np.ptp(y) > 0 else float("nan")


def draw(rows, path):
    """Gains by workload and network; and load against time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (bars, points) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained", width_ratios=(3, 2))
    colours = {"upgrade": "#b4bcc6", "hottest": "#e0a100", "measured": "#56b4e9", "oracle": "#0072b2"}
    names = list(WORKLOADS)
    for i, arm in enumerate(ARMS[1:]):
        x = [names.index(r[0]) * 3.6 + NETWORKS.index(r[1]) + (i - 1.5) * 0.2 for r in rows]
        bars.bar(x, [100 * r[2][arm] for r in rows], width=0.19, color=colours[arm], label=arm)
    bars.set_xticks([names.index(n) * 3.6 + 1 for n in names], names, rotation=20)
    bars.set(ylabel="communication time saved, %", title="per workload: dragonfly, fat-tree, torus")
    bars.axhline(0, color="0.3", linewidth=0.8)
    bars.legend(frameon=False)
    for family, mark in zip(NETWORKS, "os^", strict=True):
        mine = [r for r in rows if r[1] == family]
        points.scatter([r[3] for r in mine], [1 - r[2]["oracle"] for r in mine], marker=mark, label=family)
    points.plot([0, 1], [0, 1], color="0.6", linestyle=":")
    points.set(
        xlabel="load of the fullest electrical link, beside electrical only",
        ylabel="communication time, beside electrical only",
    )
    points.legend(frameon=False)
    for axes in (bars, points):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
