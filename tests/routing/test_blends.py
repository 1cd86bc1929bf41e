"""Fluid forms of routings that choose: columns against the fluids they are parts of, divisions against closed forms and a plain search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array

from netsim.core.errors import InputError
from netsim.routing import best_division, demand, fluid_loads, saturation
from netsim.routing.blends import detour_columns, minimal_columns
from netsim.routing.fluid import fluid_routings, transport
from netsim.topologies import Topology, dragonfly, hyperx, jellyfish, slim_fly, torus

NETWORKS = {
    "dragonfly": dragonfly(2, 4, 2),
    "trunked": dragonfly(1, 4, 2, 4),
    "two groups": dragonfly(1, 2, 1, 2),
    "torus": torus((4, 3)),
    "hyperx": hyperx((3, 3)),
    "jellyfish": jellyfish(12, 4, 2, seed=1),
}


@pytest.mark.parametrize("name", list(NETWORKS))
@pytest.mark.parametrize("pattern", ["uniform", "random-permutation"])
def test_columns_add_up_to_the_fluid_routings(name: str, pattern: str) -> None:
    net = NETWORKS[name]
    moved = transport(net, demand(net, pattern, seed=2))
    grid = net.family == "torus"
    detour = "valiant-group" if net.family == "dragonfly" else "valiant-router"
    for columns, routing in (
        (minimal_columns(net, moved), "dimension-order" if grid else "ecmp"),
        (detour_columns("ugal-g", net, moved), detour),
    ):
        np.testing.assert_allclose(
            columns @ moved.amount_bytes_per_s, fluid_routings[routing](net, moved), rtol=1e-9, atol=1e-3
        )


@pytest.mark.parametrize("h", [1, 2, 3])
@pytest.mark.parametrize("routing", ["ugal-l", "ugal-g", "par"])
def test_adversarial_traffic_by_closed_form(h: int, routing: str) -> None:
    p, a = h, 2 * h
    g = a * h + 1
    net = dragonfly(p, a, h)
    # The direct link of two groups full, and half of every way over a third group.
    found = saturation(net, pattern="adv+1", routing=routing).throughput
    assert found == pytest.approx(g / (2 * (g - 1)), rel=1e-8)
    if h > 1:
        # Direct link full, and the local links of transit groups with what h ports bring to one router.
        found = saturation(net, pattern=f"adv+{h}", routing=routing).throughput
        assert found == pytest.approx(1 / (a * p) + (g - 2) / (h * p * (a + 2)), rel=1e-8)


def test_nothing_leaves_minimal_paths_that_suffice() -> None:
    net = dragonfly(2, 4, 2)
    straight = fluid_loads(net, "uniform", routing="ecmp")
    for routing in ("ugal-l", "ugal-g", "par"):
        np.testing.assert_array_equal(fluid_loads(net, "uniform", routing=routing), straight)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(NETWORKS)), st.integers(0, 1000))
def test_between_the_better_of_its_parts_and_the_optimum(name: str, seed: int) -> None:
    net = NETWORKS[name]
    limit = min(1.0, saturation(net, pattern="random-permutation", seed=seed).host_throughput)
    found = {
        routing: saturation(net, pattern="random-permutation", routing=routing, seed=seed).throughput
        for routing in (
            "ecmp" if net.family != "torus" else "dimension-order",
            "valiant",
            "ugal-l",
            "ugal-g",
            "optimum",
        )
    }
    straight = next(iter(found.values()))
    if straight >= limit:
        assert found["ugal-g"] == found["ugal-l"] == straight
        return
    assert max(straight, found["valiant"]) <= found["ugal-l"] * (1 + 1e-8)
    assert found["ugal-l"] <= found["ugal-g"] * (1 + 1e-8)
    assert found["ugal-g"] <= found["optimum"] * (1 + 1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_divisions_against_a_search(seed: int, together: bool) -> None:
    rng = np.random.default_rng(seed)
    n_links, n_pairs = 4, 2
    columns = [csc_array(rng.integers(0, 3, (n_links, n_pairs)) + np.eye(n_links, n_pairs)) for _ in range(2)]
    amount, capacity = rng.uniform(1, 3, n_pairs), rng.uniform(1, 3, n_links)
    group = np.zeros(n_pairs, np.int64) if together else np.arange(n_pairs)

    def throughput(shares: tuple[float, ...]) -> float:
        first = np.array([shares[j] for j in group]) * amount
        load = columns[0] @ first + columns[1] @ (amount - first)
        return float((capacity[load > 0] / load[load > 0]).min())

    steps = np.linspace(0, 1, 101)
    searched = max(map(throughput, itertools.product(steps, repeat=int(group.max()) + 1)))
    load = best_division(columns, amount, capacity, group)
    found = float((capacity[load > 0] / load[load > 0]).min())
    assert found >= searched * (1 - 1e-8)
    # A share off by half a step moves a load by little.
    assert found <= searched * 1.05


def test_most_on_the_first_set_among_the_best() -> None:
    # Link 2 is full anyway; the other two are alike: all goes over the first.
    columns = [csc_array([[1.0], [0.0], [1.0]]), csc_array([[0.0], [1.0], [1.0]])]
    load = best_division(columns, np.array([1.0]), np.array([5.0, 5.0, 1.0]), np.zeros(1, np.int64))
    np.testing.assert_allclose(load, [1.0, 0.0, 1.0], atol=1e-8)


def test_k_shortest_by_hand() -> None:
    # On a ring of four, one link to the neighbour or three the other way; half each.
    net = torus((4,), capacity=1.0)
    load = fluid_loads(net, "shift+1", routing="k-shortest")
    between = net.link_layer == net.layer_names.index("dimension 0")
    # Each link one way: half of its own pair; the other way: half of three pairs.
    assert sorted(load[between].tolist()) == [0.5] * 4 + [1.5] * 4


@pytest.mark.parametrize(
    ("net", "routing", "message"),
    [
        (slim_fly(5), "par", "routing par: needs a dragonfly, got a slim_fly; use ugal-l"),
        (
            torus((4,)),
            "adaptive",
            "routing adaptive: has no fluid form; use netsim saturate --loads, which simulates it, or",
        ),
    ],
)
def test_what_has_no_fluid_form_says_so(net: Topology, routing: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        saturation(net, pattern="shift+1", routing=routing)
    assert str(caught.value).startswith(message)
