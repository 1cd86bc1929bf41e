"""Sprayed and split flows against sums over their paths, the engine, and the fluid they tend to; use of paths by hand."""

from __future__ import annotations

import numpy as np
import pytest

from netsim.core.errors import InputError
from netsim.engine import run_flows
from netsim.routing import demand, fluid_loads, minimal, path_use, paths, spray, subflows
from netsim.topologies import Topology, dragonfly, fat_tree


def first_bottleneck(net: Topology, load: np.ndarray) -> float:
    """Rate of the flows at the fullest link when all have grown alike: the least rate of the max-min allocation."""
    return float((net.link_capacity_bytes_per_s[load > 0] / load[load > 0]).min())


@pytest.mark.parametrize("k", [1, 3, 16])
@pytest.mark.parametrize("routing", ["ecmp", "valiant-group", "k-shortest"])
def test_spray_is_the_sum_of_its_paths(k: int, routing: str) -> None:
    net = dragonfly(2, 4, 2)
    wanted = demand(net, "random-permutation", seed=1)
    found = spray(net, wanted.source, wanted.destination, k=k, routing=routing, seed=4)
    parts = subflows(net, wanted.source, wanted.destination, k=k, routing=routing, seed=4)
    table = np.zeros((72, net.n_links))
    for i in range(72 * k):
        np.add.at(table[i // k], parts[i], 1 / k)
    again = np.zeros_like(table)
    again[np.repeat(np.arange(72), np.diff(found.ptr)), found.link] = found.use
    assert again == pytest.approx(table, rel=1e-12, abs=1e-12)
    assert np.array_equal(subflows(net, wanted.source, wanted.destination, k=1, routing=routing).link,
                          paths(net, wanted.source, wanted.destination, routing=routing).link)  # fmt: skip


@pytest.mark.parametrize(("net", "pattern", "routing"), [
    (dragonfly(2, 4, 2, capacity=1.0), "adv+1", "valiant-group"), (fat_tree(4, capacity=1.0), "shift+5", "ecmp")])  # fmt: skip
def test_more_paths_tend_to_the_fluid(net: Topology, pattern: str, routing: str) -> None:
    wanted = demand(net, pattern)
    fluid = first_bottleneck(net, fluid_loads(net, wanted, routing=routing))
    least = []
    for k in (1, 8, 4096):
        found = spray(net, wanted.source, wanted.destination, k=k, routing=routing)
        least.append(first_bottleneck(net, np.bincount(found.link, weights=found.use, minlength=net.n_links)))
    assert least[0] < least[1] < least[2]
    # 4096 draws per flow: the fullest of some hundred links is over its mean by a few per cent of a part at most.
    assert 0.95 * fluid < least[2] <= fluid * 1.01


def test_subflows_share_in_the_engine() -> None:
    """Weighted by 1/k, four subflows of one flow get together what one whole flow gets on the same link."""
    net = fat_tree(4, capacity=1.0, latency=0.0)
    split = subflows(net, [0], [15], k=4)
    whole = minimal(net, 1, 15)
    ptr = np.concatenate([split.ptr, split.ptr[-1] + whole.ptr[1:]])
    finish = run_flows(
        capacity_bytes_per_s=net.link_capacity_bytes_per_s,
        ptr=ptr,
        link=np.concatenate([split.link, whole.link]),
        start_s=np.zeros(5),
        size_bytes=[0.25] * 4 + [1.0],
        weight=[0.25] * 4 + [1.0],
    )
    # Both cross the link to host 15, which both use in full: half each, and one byte takes two seconds.
    assert finish == pytest.approx([2.0] * 5, rel=1e-9)


def test_use_of_paths() -> None:
    net = dragonfly(2, 4, 2)
    source = np.arange(72)
    destination = (source + 8) % 72
    straight = path_use(net, minimal(net, source, destination), source, destination)
    assert straight["minimal_share"] == 1
    assert straight["paths"] == 72
    # Nine pairs of groups use one link of the 72 each, with 8 flows.
    assert straight["layers"]["global"] == {"mean": 1.0, "max": 8.0}
    assert "host" not in straight["layers"]
    detour = path_use(net, paths(net, source, destination, routing="valiant-router"), source, destination)
    assert detour["layers"]["global"]["mean"] == 2
    assert detour["layers"]["global"]["max"] < 8
    assert detour["minimal_share"] < 0.5
    some = paths(net, source, destination, routing="ugal-l")
    assert 0 < path_use(net, some, source, destination)["layers"]["global"]["max"] < 8
    assert path_use(net, minimal(net, 1, 1), 1, 1)["minimal_share"] == 1


@pytest.mark.parametrize("k", [0, 1.5])
def test_bad_number_of_paths(k: float) -> None:
    with pytest.raises(
        InputError, match=r"^routing: the number of paths per flow must be a whole number, 1 or more, got "
    ):
        subflows(fat_tree(4), 0, 1, k=k)
