"""Random flows: sizes and gaps are those of the laws, and nothing depends on the order of asking; fan-in by closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from netsim.core.errors import InputError
from netsim.core.units import parse_rate
from netsim.traces.schema import OP_CODE
from netsim.traffic.workloads import FLOW_SIZES, build, datacenter_flows, incast


@pytest.mark.parametrize("name", list(FLOW_SIZES))
def test_distributions_are_distributions(name: str) -> None:
    law = FLOW_SIZES[name]
    size, part = np.array(law.size_bytes), np.array(law.part)
    assert (part[0], part[-1]) == (0, 1)
    assert (np.diff(size) >= 0).all()
    assert (np.diff(part) > 0).all()
    # The mean is the integral of the quantiles.
    grid = (np.arange(2_000_000) + 0.5) / 2_000_000
    assert law.quantile(grid).mean() == pytest.approx(law.mean_bytes, rel=1e-4)


def test_two_published_tables_of_web_search_agree() -> None:
    # In packets of 1500 B, rounded down, by another source than the table in bytes.
    packets = {
        6: 0.15,
        13: 0.2,
        20: 0.3,
        33: 0.4,
        53: 0.53,
        133: 0.6,
        667: 0.7,
        1333: 0.8,
        3333: 0.9,
        6667: 0.97,
        20000: 1,
    }
    law = FLOW_SIZES["web-search"]
    for (n, part), size, own in zip(packets.items(), law.size_bytes[1:], law.part[1:]):
        assert part == own
        assert abs(1500 * n - size) <= 1500


@pytest.mark.parametrize("name", list(FLOW_SIZES))
def test_sizes_gaps_and_destinations_follow_their_laws(name: str) -> None:
    n, flows, load = 8, 2000, 0.4
    trace = datacenter_flows(n_ranks=n, sizes=name, load=load, rate="10Gbps", flows=flows, seed=3).trace()
    sent = trace.column("op") == OP_CODE["send"]
    law = FLOW_SIZES[name]
    size = trace.column("bytes")[sent]
    # At each point of the published distribution; 4 standard deviations.
    for point, part in zip(law.size_bytes, law.part):
        if list(law.size_bytes).count(point) == 1:
            found = (size <= point).mean()
            assert abs(found - part) <= 4 * np.sqrt(part * (1 - part) / size.size) + 1e-9
    gap = trace.column("gap_ns")[sent] / 1e9
    mean = law.mean_bytes / (load * parse_rate("10Gbps"))
    assert stats.kstest(gap, stats.expon(scale=mean).cdf).pvalue > 1e-3
    pairs = np.zeros((n, n))
    np.add.at(pairs, (trace.column("rank")[sent], trace.column("peer")[sent]), 1)
    assert (np.diag(pairs) == 0).all()
    assert stats.chisquare(pairs[~np.eye(n, dtype=bool)]).pvalue > 1e-3


def test_draws_do_not_depend_on_the_order_of_ranks_but_on_the_seed() -> None:
    a, b = (build("datacenter-flows:flows=20,seed=5", n_ranks=6) for _ in range(2))
    forward = [a.script(r).table() for r in range(6)]
    backward = [b.script(r).table() for r in reversed(range(6))][::-1]
    assert all(x.equals(y) for x, y in zip(forward, backward))
    other = build("datacenter-flows:flows=20,seed=6", n_ranks=6).script(0).table()
    assert not other.equals(forward[0])


def test_flows_are_offered_whatever_the_network_does(ask) -> None:
    work = datacenter_flows(n_ranks=4, sizes="hadoop", load=0.3, rate="10Gbps", flows=50)
    starts = {}
    for rate in (1e12, 1e8):
        flows = ask.star(work, rate=rate).to_arrow("flows")
        starts[rate] = np.sort(flows.column("start_ns").to_numpy())
    assert (starts[1e12] == starts[1e8]).all()


def test_too_many_flows() -> None:
    with pytest.raises(
        InputError, match="workload datacenter-flows flows: all hosts' must be 50,000,000 or less, got 100,000,000"
    ):
        datacenter_flows(n_ranks=1000, flows=100_000)


@pytest.mark.parametrize(("workers", "batch"), [(1, 1), (8, 3)])
def test_incast(ask, workers: int, batch: int) -> None:
    rate, latency, size, request = 1e9, 2e-6, 50_000, 1000
    work = incast(n_ranks=workers + 1, size=size, batch=batch, request=request, rounds=4, work=1e-3)
    found = ask.pairs(work)
    assert (found[1:, 0] == 4 * batch * size).all()
    assert (found[0, 1:] == 4 * batch * request).all()
    made = ask.star(work, rate=rate, latency=latency).makespan_s
    assert made == pytest.approx(4 * (workers * batch * (size + request) / rate + 1e-3 + 2 * latency), rel=1e-9)
