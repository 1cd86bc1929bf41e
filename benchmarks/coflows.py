"""What scheduling coflows costs at the size of an hour of a cluster: 526 coflows, 150 ports, half a million flows; CPU seconds on one core.

    python benchmarks/coflows.py

Drawn at random: a quarter one to one, a third many to one, widths up to 145, reducers from a Pareto law with shape 1.1, 1 MB at least.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from netsim.optics.schedules import (
    Coflows,
    check_timetable,
    circuit_bound_s,
    lp_bound_s,
    order_rules,
    schedule_coflows,
    sunflow,
    weaver,
)

RATE, DELAY = 1.25e8, 0.01


def drawn() -> Coflows:
    rng = np.random.default_rng(1)
    rows, arrival, now = [], [], 0.0
    for i in range(526):
        kind = rng.random()
        m = 1 if kind < 0.34 else int(rng.integers(2, 60))
        r = 1 if kind < 0.23 or kind > 0.6 else int(rng.integers(2, 60))
        if kind > 0.9:
            m, r = int(rng.integers(40, 146)), int(rng.integers(20, 145))
        senders, receivers = rng.choice(150, m, replace=False), rng.choice(150, r, replace=False)
        for d in receivers:
            size = np.ceil(rng.pareto(1.1) * 5 + 1) * 1e6
            rows += [(i, s, d, max(size / m, 1e6)) for s in senders]
        arrival.append(now)
        now += rng.exponential(7)
    return Coflows.of_flows(np.array(rows), n_ports=150, arrival_s=arrival)


def timed(name: str, call: Callable[[], Any]) -> Any:
    begin = time.process_time()
    found = call()
    print(f"{name:<34} {time.process_time() - begin:7.2f} s", flush=True)
    return found


def main() -> None:
    coflows = drawn()
    print(coflows)
    alone = timed("sunflow, each alone", lambda: sunflow(coflows, capacity_bytes_per_s=RATE, delay_s=DELAY, alone=True))
    ratio = alone.completion_s / circuit_bound_s(coflows, capacity_bytes_per_s=RATE, delay_s=DELAY)
    print(f"  over the bound: mean {ratio.mean():.4f}, largest {ratio.max():.4f}")
    for rule in order_rules:
        timed(f"order {rule}", lambda rule=rule: order_rules[rule](coflows, np.array([RATE, RATE]), DELAY))
    cores = {"capacity_bytes_per_s": np.array([RATE / 2, RATE / 2]), "delay_s": DELAY}
    for circuit in ("list", "sunflow", "solstice"):
        found = timed(
            f"two cores, {circuit}", lambda circuit=circuit: schedule_coflows(coflows, **cores, circuit=circuit)
        )
        timed("  its check", lambda found=found: check_timetable(found))
        print(f"  sum of completion times {found.total_s:,.0f} s")
    timed("weaver", lambda: weaver(coflows, capacity_bytes_per_s=cores["capacity_bytes_per_s"]))
    timed("linear program", lambda: lp_bound_s(coflows, **cores))


if __name__ == "__main__":
    main()
