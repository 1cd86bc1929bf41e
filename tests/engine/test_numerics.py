"""Arithmetic at its edges: late clocks, tiny remainders, scale, numbering. Everything the engine knows about rounding is relative."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.engine import run_flows

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def case(seed, n=300, n_links=25, scale_s=0.02):
    """Random flows with weights, caps, latencies and priorities."""
    n = n if JIT else n // 10
    rng = np.random.default_rng(seed)
    hops = rng.integers(1, 5, n)
    return {
        "capacity_bytes_per_s": rng.choice([5.0, 10.0, 40.0], n_links),
        "ptr": np.cumsum([0, *hops]),
        "link": np.concatenate([rng.choice(n_links, h, replace=False) for h in hops]),
        "start_s": rng.exponential(scale_s, n).cumsum(),
        "size_bytes": rng.lognormal(2, 1.5, n),
        "latency_s": rng.choice([0.0, 0.1], n),
        "weight": rng.choice([1.0, 2.0, 3.0], n),
        "rate_cap_bytes_per_s": rng.choice([np.inf, 4.0], n),
        "priority": rng.integers(0, 2, n),
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_clock_at_a_million_seconds_moves_no_moment_by_more_than_it_resolves(seed):
    base = case(seed)
    late = {**base, "start_s": base["start_s"] + 1e6}
    # 1e6 s resolve to 1.2e-10 s; a start that is rounded moves the work that follows by as much, and sharing adds these up.
    off = run_flows(**late) - 1e6 - run_flows(**base)
    assert np.abs(off).max() < 1e3 * np.spacing(1e6)


def test_transfers_shorter_than_a_tick_of_the_clock_end_at_once_and_in_few_events():
    # One byte at 50 GB/s takes 2e-11 s, a sixth of a tick at 1e6 s; beside it a long transfer on the same link.
    n = 2000 if JIT else 50
    start = np.concatenate([[0.0], np.full(n, 1e6) + np.arange(n) * 1e-3])
    size = np.concatenate([[50e9 * 2e6], np.ones(n)])
    end = run_flows(
        capacity_bytes_per_s=[50e9], ptr=np.arange(n + 2), link=np.zeros(n + 1, int), start_s=start, size_bytes=size
    )
    tick = np.spacing(1e6)
    assert (end[1:] >= start[1:]).all()
    assert (end[1:] - start[1:] <= 4 * tick).all()
    # Alone for 1e6 s, then losing a byte to each: the bytes add up to the end of the link's work.
    assert end[0] == pytest.approx(2e6, abs=8 * np.spacing(2e6))


@pytest.mark.parametrize("n", [3, 7, 49, 997])
def test_shares_that_do_not_divide_leave_no_remainder_that_stalls(n):
    # n equal transfers of thirds, sevenths ... over links of their own and one they share: all drain in one batch, whatever rounds.
    size = 1e9 / 3
    link = np.column_stack([np.arange(1, n + 1), np.zeros(n, int)]).ravel()
    end = run_flows(
        capacity_bytes_per_s=[12.5e9 / 7, *[12.5e9 / 3] * n],
        ptr=np.arange(0, 2 * n + 1, 2),
        link=link,
        start_s=np.zeros(n),
        size_bytes=np.full(n, size),
        weight=np.full(n, 1 / 7),
    )
    assert (end == end[0]).all()
    assert end[0] == pytest.approx(n * size / (12.5e9 / 7), rel=1e-12)


def test_sizes_of_eighteen_orders_of_magnitude_on_one_link():
    # Shares of one link end in the order of size; each end follows from the bytes all have sent by then.
    size = 10.0 ** np.arange(-3, 16)
    n = size.size
    end = run_flows(
        capacity_bytes_per_s=[1e9], ptr=np.arange(n + 1), link=np.zeros(n, int), start_s=np.zeros(n), size_bytes=size
    )
    sent = [np.minimum(size, s).sum() for s in size]
    assert end == pytest.approx(np.array(sent) / 1e9, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [2.0, 1024.0, 2.0**-20])
def test_a_faster_network_by_a_power_of_two_scales_every_bit(seed, k):
    # c -> kc, t -> t/k. Powers of two are exact, so any absolute tolerance would show.
    base = case(seed)
    fast = {
        **base,
        "capacity_bytes_per_s": k * base["capacity_bytes_per_s"],
        "rate_cap_bytes_per_s": k * base["rate_cap_bytes_per_s"],
        "start_s": base["start_s"] / k,
        "latency_s": base["latency_s"] / k,
    }
    assert (run_flows(**fast) * k).tobytes() == run_flows(**base).tobytes()


@pytest.mark.parametrize("k", [3.0, 1e6, 1e-6])
def test_a_faster_network_by_any_factor(k):
    base = case(7)
    fast = {
        **base,
        "capacity_bytes_per_s": k * base["capacity_bytes_per_s"],
        "rate_cap_bytes_per_s": k * base["rate_cap_bytes_per_s"],
        "start_s": base["start_s"] / k,
        "latency_s": base["latency_s"] / k,
    }
    assert run_flows(**fast) * k == pytest.approx(run_flows(**base), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_numbers_of_flows_and_links_do_not_matter(seed):
    base = case(seed)
    rng = np.random.default_rng(seed + 50)
    n, n_links = base["start_s"].size, base["capacity_bytes_per_s"].size
    order, relabel = rng.permutation(n), rng.permutation(n_links)
    paths = [base["link"][base["ptr"][i] : base["ptr"][i + 1]] for i in order]
    capacity = np.empty(n_links)
    capacity[relabel] = base["capacity_bytes_per_s"]
    per_flow = ("start_s", "size_bytes", "latency_s", "weight", "rate_cap_bytes_per_s", "priority")
    other = run_flows(
        capacity_bytes_per_s=capacity,
        ptr=np.cumsum([0, *(len(p) for p in paths)]),
        link=relabel[np.concatenate(paths)],
        **{name: base[name][order] for name in per_flow},
    )
    assert other == pytest.approx(run_flows(**base)[order], rel=1e-9)


@given(st.data())
@settings(max_examples=100 if JIT else 10)
def test_a_flow_of_weight_w_equals_w_flows_of_weight_one(data):
    n_links = data.draw(st.integers(1, 4))
    capacity = data.draw(st.lists(st.integers(1, 12), min_size=n_links, max_size=n_links))
    flows = data.draw(
        st.lists(
            st.tuples(
                st.lists(st.integers(0, n_links - 1), min_size=1, max_size=3, unique=True),
                st.integers(1, 5),
                st.integers(1, 12),
                st.integers(0, 4),
            ),
            min_size=1,
            max_size=6,
        )
    )

    def run(rows, weight):
        return run_flows(
            capacity_bytes_per_s=capacity,
            ptr=np.cumsum([0, *(len(r[0]) for r in rows)]),
            link=[x for r in rows for x in r[0]],
            start_s=[r[3] for r in rows],
            size_bytes=[r[2] / r[1] if weight is None else r[2] for r in rows],
            weight=weight,
        )

    merged = run(flows, [r[1] for r in flows])
    apart = run([r for r in flows for _ in range(r[1])], None)
    assert apart == pytest.approx(np.repeat(merged, [r[1] for r in flows]), rel=1e-9)
