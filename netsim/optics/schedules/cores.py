"""Coflows on circuit switches side by side: an order, a core for each flow, and circuits on each core."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64
from netsim.core.registry import Registry
from netsim.core.rng import stream
from netsim.optics.schedules.coflows import Coflows
from netsim.optics.schedules.lists import circuit_rules, rates_of
from netsim.optics.schedules.orders import order_rules
from netsim.optics.schedules.timetable import Timetable

__all__ = ["assign_rules", "largest_first", "schedule_coflows"]

# Coflows, their order, rates, delay, seed.
AssignRule = Callable[[Coflows, Int64, Float64, float, int], Int64]
assign_rules: Registry[AssignRule] = Registry("core assignment", "netsim.core_assignments")


def largest_first(coflows: Coflows, m: int) -> Int64:
    """Flows of a coflow, the largest first, then by ports."""
    at = coflows.flows(m)
    return at[np.lexsort((at, -coflows.size_bytes[at]))]


@assign_rules.register("random")
def random(coflows: Coflows, order: Int64, rate: Float64, delay_s: float, seed: int) -> Int64:
    """Drawn for each flow, in proportion to the rates."""
    draw = stream(seed, "coflows", "cores")
    return draw.choice(rate.size, size=coflows.source.size, p=rate / rate.sum()).astype(np.int64)


@assign_rules.register("load")
def load(coflows: Coflows, order: Int64, rate: Float64, delay_s: float, seed: int) -> Int64:
    """Where the bytes so far at the flow's two ports, with its own, are soonest sent; blind to set-ups."""
    return _least(coflows, order, rate, 0.0)


@assign_rules.register("setups")
def setups(coflows: Coflows, order: Int64, rate: Float64, delay_s: float, seed: int) -> Int64:
    """Where bytes and set-ups so far at the flow's two ports, with its own, take the least time."""
    return _least(coflows, order, rate, delay_s)


def _least(coflows: Coflows, order: Int64, rate: Float64, delay_s: float) -> Int64:
    """Coflow by coflow, the largest flow first: the core with the least ``max_p (L_kp + d) / r_k + delay (n_kp + 1)``."""
    n, cores = coflows.n_ports, rate.size
    size, flows = np.zeros((cores, 2 * n)), np.zeros((cores, 2 * n))
    found = np.empty(coflows.source.size, np.int64)
    for m in order.tolist():
        for f in largest_first(coflows, m).tolist():
            at = [int(coflows.source[f]), n + int(coflows.destination[f])]
            time = (size[:, at] + coflows.size_bytes[f]) / rate[:, None] + delay_s * (flows[:, at] + 1)
            k = int(np.argmin(time.max(axis=1)))
            size[k, at] += coflows.size_bytes[f]
            flows[k, at] += 1
            found[f] = k
    return found


@assign_rules.register("weaver")
def weaver_cores(coflows: Coflows, order: Int64, rate: Float64, delay_s: float, seed: int) -> Int64:
    """Weaver (IPDPS 2020), bytes of all coflows so far taken together; blind to set-ups."""
    flows = np.concatenate([*(largest_first(coflows, m) for m in order.tolist()), np.empty(0, np.int64)])
    found = np.empty(coflows.source.size, np.int64)
    found[flows], _ = weaver_rule(coflows, flows, rate)
    return found


def weaver_rule(coflows: Coflows, flows: Int64, rate: Float64) -> tuple[Int64, Float64]:
    """Core of each flow in the order given, and the bytes at each port, shape (cores, 2 n_ports).

    A flow is critical if it would raise the bytes of the fullest port of some core: then the core where the fullest port, with the flow,
    is soonest done. Else the core where the flow's own ports are.
    """
    n = coflows.n_ports
    size = np.zeros((rate.size, 2 * n))
    fullest = np.zeros(rate.size)
    found = np.empty(flows.size, np.int64)
    for i, f in enumerate(flows.tolist()):
        at = [int(coflows.source[f]), n + int(coflows.destination[f])]
        own = size[:, at].max(axis=1) + coflows.size_bytes[f]
        after = np.maximum(fullest, own)
        k = int(np.argmin((after if (after > fullest).any() else own) / rate))
        size[k, at] += coflows.size_bytes[f]
        fullest[k] = after[k]
        found[i] = k
    return found, size


def schedule_coflows(
    coflows: Coflows,
    *,
    capacity_bytes_per_s: npt.ArrayLike,
    delay_s: float,
    order: str | npt.ArrayLike = "wspt",
    assign: str | npt.ArrayLike = "setups",
    circuit: str = "list",
    seed: int = 0,
) -> Timetable:
    """Schedule coflows on optical circuit switches side by side, no flow divided between them.

    Three steps, each by a rule of your choice, after Wang, Shen, Tian and Wang (arXiv 2604.08242 and 2604.22146), whose exact rules these
    are not claimed to be: an order of coflows, a core for each flow, and circuits on each core.

    Parameters
    ----------
    coflows : Coflows
    capacity_bytes_per_s : array_like of float, shape (cores,)
    delay_s : float
        To set up a circuit.
    order : str or array_like of int, shape (m,)
        A name in ``order_rules``, or coflows, first to last.
    assign : str or array_like of int, shape (flows,)
        A name in ``assign_rules``, or cores.
    circuit : str
        A name in ``circuit_rules``.
    seed : int
        For ``random``.

    Examples
    --------
    >>> rows = [(0, 0, 0, 2), (0, 0, 1, 2), (0, 1, 0, 2), (1, 1, 1, 1), (1, 2, 1, 1)]
    >>> found = schedule_coflows(Coflows.of_flows(rows), capacity_bytes_per_s=[1.0, 1.0], delay_s=0.1)
    >>> [round(float(s), 9) for s in found.completion_s]
    [3.2, 1.1]
    """
    rate = rates_of(capacity_bytes_per_s, delay_s)
    ranked = order_rules[order](coflows, rate, delay_s) if isinstance(order, str) else np.asarray(order, np.int64)
    core = assign_rules[assign](coflows, ranked, rate, delay_s, seed) if isinstance(assign, str) else np.asarray(assign)
    rule = circuit_rules[circuit]
    rows = []
    for k in range(rate.size):
        rows += rule(coflows, ranked, np.flatnonzero(core == k), k, float(rate[k]), delay_s)
    return Timetable.of(coflows, rate, delay_s, rows)
