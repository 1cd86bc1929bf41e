"""Routes made for a demand against the linear program with a variable per source and link, and against bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.routing import Demand, demand, engineered, fluid_loads, link_loads, saturation, transport
from netsim.routing.throughput import best_loads
from netsim.topologies import Topology, bcube, dragonfly, jellyfish, star, torus, xgft

NETWORKS = {
    "dragonfly": dragonfly(1, 2, 1),
    "trunked": dragonfly(1, 4, 2, 4),
    "torus": torus((4, 3)),
    "uneven": torus((4, 4), capacity="10Gbps", host_capacity="100Gbps"),
    "jellyfish": jellyfish(12, 4, 2, seed=1),
    "tapered tree": xgft((3, 3), (1, 2)),
}


def optimum(net: Topology, wanted: Demand) -> float:
    load = best_loads(net, transport(net, wanted))
    used = np.flatnonzero(load > 0)
    return float((net.link_capacity_bytes_per_s[used] / load[used]).min())


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(NETWORKS)), st.integers(0, 10**6), st.integers(1, 40))
def test_near_the_linear_program_and_below_the_bound(name: str, seed: int, n: int) -> None:
    net = NETWORKS[name]
    rng = np.random.default_rng(seed)
    source, destination = rng.integers(0, net.n_hosts, n), rng.integers(0, net.n_hosts, n)
    wanted = Demand.of(net.n_hosts, source, destination, rng.uniform(0.1, 1.0, n) / n)
    moved = transport(net, wanted)
    found = engineered(net, moved)
    if moved.source.size == 0:
        assert found.throughput == np.inf
        return
    best = optimum(net, wanted)
    assert best * 0.989 <= found.throughput <= best * (1 + 1e-6)
    assert found.bound >= best * (1 - 1e-6)
    # Shares of a pair add up, and its paths lead from its one switch to the other.
    pair = np.repeat(np.arange(moved.source.size), np.diff(found.ptr))
    np.testing.assert_allclose(np.bincount(pair, weights=found.share), 1.0, rtol=1e-9)
    for i, j in enumerate(pair):
        links = found.paths[i]
        assert net.link_src[links[0]] == moved.source[j]
        assert net.link_dst[links[-1]] == moved.destination[j]
        assert (net.link_dst[links[:-1]] == net.link_src[links[1:]]).all()
        assert np.unique(net.link_src[links]).size == links.size
    load = link_loads(net, found.paths, weight=moved.amount_bytes_per_s[pair] * found.share)
    used = load > 0
    assert found.throughput == pytest.approx(float((net.link_capacity_bytes_per_s[used] / load[used]).min()), rel=1e-12)


@pytest.mark.parametrize(("pattern", "expected"), [("adv+1", 0.5625), ("adv+2", 0.5625)])
def test_adversarial_traffic_by_closed_form(pattern: str, expected: float) -> None:
    net = dragonfly(2, 4, 2)
    assert saturation(net, pattern=pattern, routing="engineered").throughput == pytest.approx(expected, rel=0.01)
    assert fluid_loads(net, pattern, routing="engineered").max() > 0


def test_nothing_to_send_and_networks_that_do_not_fit() -> None:
    assert engineered(star(4), transport(star(4), demand(star(4), "uniform"))).throughput == np.inf
    with pytest.raises(InputError, match="routing engineered: needs hosts with one link, to a switch, got a bcube"):
        saturation(bcube(2, 1), pattern="shift+1", routing="engineered")
