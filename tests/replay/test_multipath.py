"""Adaptive routings and several paths per transfer in whole runs: what they are worth, and that nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

import netsim as ns
from netsim.core.errors import InputError
from netsim.engine import Multipath
from netsim.routing import demand, saturation
from netsim.topologies import Topology, dragonfly, fat_tree, xgft
from netsim.traffic.taskgraph import GraphBuilder, TaskGraph

SECOND_BYTES = 1e9  # what a host link carries in 1 s


def all_at_once(net: Topology, pattern: str, seed: int = 0) -> TaskGraph:
    """Every host sends what its link carries in 1 s, as the pattern says."""
    build = GraphBuilder(n_ranks=net.n_hosts)
    source, target, share = demand(net, pattern, seed=seed).pairs()
    for s, d, part in zip(source.tolist(), target.tolist(), share.tolist(), strict=True):
        build.transfer(source=s, destination=d, size_bytes=part * SECOND_BYTES)
    return build.graph()


def throughput(net: Topology, pattern: str, **options: object) -> float:
    """1 s over the time until the last byte has arrived."""
    return 1.0 / ns.simulate(all_at_once(net, pattern), topology=net, **options).makespan_s  # type: ignore[arg-type]


def small(h: int) -> Topology:
    return dragonfly(h, 2 * h, h, capacity=SECOND_BYTES, latency=0.0)


@pytest.mark.compiled
def test_sub_flows_approach_the_fluid_and_one_path_stays_far_below() -> None:
    net = small(2)
    fluid = saturation(net, pattern="adv+1", routing="valiant-group").throughput
    one, eight, many = (
        np.mean([throughput(net, "adv+1", routing="valiant-group", multipath=m, seed=s) for s in range(3)])
        for m in ("one", "subflows:8", "subflows:256")
    )
    assert one < 0.6 * fluid
    assert one < eight < many < fluid * (1 + 1e-9)
    assert many > 0.9 * fluid


def test_a_spray_over_all_paths_is_the_fluid_and_over_some_its_slowest_path() -> None:
    # Two cables between two switches of two hosts: each host has half of each, or all depend on how they fall.
    net = xgft((2, 2), (1, 2), capacity=SECOND_BYTES, latency=0.0)
    graph = all_at_once(net, "shift+2")
    even = ns.simulate(graph, topology=net, routing="ecmp", multipath="spray:256")
    assert even.makespan_s == pytest.approx(1.0, rel=0.1)
    carried = even.tables["links"].to_pandas().groupby("layer", observed=True)["bytes"].sum()
    # Up and down, between hosts and leaves and between leaves and spines: each byte four links.
    assert carried.sum() == pytest.approx(4 * 4 * SECOND_BYTES, rel=1e-9)
    assert even.summary["paths"]["minimal_share"] == 1.0


@pytest.mark.parametrize("routing", ["ugal-l", "ugal-g", "par", "adaptive"])
def test_adaptive_routing_beats_the_minimal_path_where_that_is_full(routing: str) -> None:
    net = small(2)
    graph = all_at_once(net, "adv+1")
    straight = ns.simulate(graph, topology=net, routing="minimal")
    found = ns.simulate(graph, topology=net, routing=routing)
    best = saturation(net, pattern="adv+1", routing="optimum").throughput
    # All eight hosts of a group over one link: eight seconds.
    assert straight.makespan_s == pytest.approx(8.0, rel=1e-9)
    assert 1 / best < found.makespan_s < 0.6 * straight.makespan_s
    assert found.provenance["multipath"] == "subflows:8"
    used = found.summary["paths"]
    assert 0 < used["minimal_share"] < 1
    assert used["used"] <= used["available"]
    assert found.summary["network_bytes"] == net.n_hosts * SECOND_BYTES
    # What leaves the hosts is what was sent.
    links = found.tables["links"].to_pandas()
    assert links[links.src.str.startswith("host")]["bytes"].sum() == pytest.approx(net.n_hosts * SECOND_BYTES, rel=1e-9)


def test_messages_too_small_to_split_take_one_path() -> None:
    net = small(2)
    build = GraphBuilder(n_ranks=net.n_hosts)
    for host in range(8):
        build.transfer(source=host, destination=host + 8, size_bytes=8 * 4096 - 1)
    graph = build.graph()
    whole = ns.simulate(graph, topology=net, routing="valiant-group", multipath="one", seed=3)
    split = ns.simulate(graph, topology=net, routing="valiant-group", multipath="subflows:8", seed=3)
    assert split.makespan_s == whole.makespan_s
    assert split.tables["flows"].equals(whole.tables["flows"])


def test_a_run_that_never_left_the_minimal_paths_says_so() -> None:
    net = small(2)
    build = GraphBuilder(n_ranks=net.n_hosts)
    build.transfer(source=0, destination=70, size_bytes=1e6)
    lonely = ns.simulate(build.graph(), topology=net, routing="ugal-g", multipath="one")
    assert lonely.summary["paths"]["minimal_share"] == 1.0
    note = "routing ugal-g never left the minimal paths: no detour promised more than they did"
    assert note in lonely.summary["notes"]
    # A tree has no detours to take.
    tree = ns.simulate(build.graph(), topology=fat_tree(8), routing="adaptive", multipath="one")
    assert not tree.summary["notes"]
    busy = ns.simulate(all_at_once(net, "adv+1"), topology=net, routing="ugal-g")
    assert note not in busy.summary["notes"]


def test_dependent_transfers_wait_for_all_parts() -> None:
    # Two cables between two switches; the second message starts when all of the first has arrived.
    net = xgft((2, 2), (1, 2), capacity=SECOND_BYTES, latency=0.0)
    build = GraphBuilder(n_ranks=4)
    first = build.transfer(source=0, destination=2, size_bytes=SECOND_BYTES)
    second = build.transfer(source=2, destination=0, size_bytes=SECOND_BYTES)
    build.edge(first, second)
    result = ns.simulate(build.graph(), topology=net, routing="ecmp", multipath="subflows:4")
    flows = result.tables["flows"].to_pandas()
    assert flows.end_ns.tolist() == [10**9, 2 * 10**9]
    assert flows.start_ns.tolist() == [0, 10**9]


def test_transfers_move_while_under_way_and_end_sooner() -> None:
    # Sizes differ: when the short ones are done, the long ones find room on other paths.
    net = fat_tree(4, capacity=SECOND_BYTES, latency=0.0)
    build = GraphBuilder(n_ranks=net.n_hosts)
    rng = np.random.default_rng(5)
    for host, to in enumerate(rng.permutation(net.n_hosts)):
        if host != to:
            build.transfer(source=host, destination=int(to), size_bytes=float(rng.choice([0.2, 1.0])) * SECOND_BYTES)
    graph = build.graph()
    stay = ns.simulate(graph, topology=net, routing="adaptive", multipath="one")
    move = ns.simulate(graph, topology=net, routing="adaptive", multipath="one", reroute_s=0.01)
    assert move.makespan_s <= stay.makespan_s * (1 + 1e-9)
    assert move.summary["paths"]["moves"] >= 0
    again = ns.simulate(graph, topology=net, routing="adaptive", multipath="one", reroute_s=0.01)
    assert again.tables["flows"].equals(move.tables["flows"])


@pytest.mark.compiled
def test_a_trace_with_sub_flows_keeps_its_calls_and_bytes(tmp_path) -> None:
    trace = "examples/traces/cg-8.parquet"
    one = ns.replay(trace, topology="dragonfly", routing="minimal")
    many = ns.replay(trace, topology="dragonfly", routing="ugal-g", multipath="subflows:3")
    assert many.summary["network_bytes"] == one.summary["network_bytes"]
    assert many.tables["ops"].num_rows == one.tables["ops"].num_rows
    assert many.tables["flows"].num_rows == one.tables["flows"].num_rows
    assert (
        many.tables["ranks"]
        .drop(["in_calls_ns", "finish_ns"])
        .equals(one.tables["ranks"].drop(["in_calls_ns", "finish_ns"]))
    )
    assert not np.isnan(many.makespan_s)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"multipath": "subflows"}, "multipath: must be one, subflows:PATHS or spray:PATHS, got 'subflows'"),
        ({"multipath": "subflows:0"}, "multipath: must be 1 to 4096 paths, got 0"),
        ({"multipath": "one:2"}, "multipath: must be one, subflows:PATHS or spray:PATHS, got 'one:2'"),
        ({"multipath": "many:2"}, "multipath: must be one, subflows:PATHS or spray:PATHS, got 'many:2'"),
        (
            {"multipath": "spray:4", "routing": "ugal-l"},
            "multipath spray: sends fixed parts over paths drawn beforehand, got routing ugal-l, which chooses; take subflows",
        ),
        (
            {"reroute_s": 1.0, "routing": "minimal"},
            "rerouting: needs an adaptive routing, and no optics, got routing minimal; take one of adaptive, par, ugal-g, ugal-l",
        ),
        (
            {"reroute_s": 1.0, "routing": "adaptive", "hysteresis": -1.0},
            "rerouting: hysteresis must be 0 or more, got -1.0",
        ),
        ({"reroute_s": 0.0, "routing": "adaptive"}, "control period: must be finite and above 0 seconds, got 0.0"),
        (
            {"optics": "eefi:ports=1,delay=1us", "multipath": "subflows:2"},
            "multipath: does not go with optics, got routing minimal, subflows:2; take one path",
        ),
    ],
)
def test_what_does_not_go_together_is_said(options: dict, message: str) -> None:
    net = small(1)
    build = GraphBuilder(n_ranks=net.n_hosts)
    build.transfer(source=0, destination=1, size_bytes=1e6)
    with pytest.raises(InputError) as caught:
        ns.simulate(build.graph(), topology=net, **options)
    assert str(caught.value) == message


def test_text_and_value_of_multipath_agree() -> None:
    for text in ("one", "subflows:8", "spray:3"):
        assert str(Multipath.parse(text)) == text


def test_routes_made_for_the_demand_reach_the_optimum() -> None:
    net = small(2)
    best = saturation(net, pattern="adv+1", routing="optimum").accepted
    result = ns.simulate(all_at_once(net, "adv+1"), topology=net, routing="engineered")
    # All send alike, each pair of switches over its own paths in the best proportion: the fullest links are never idle.
    assert result.makespan_s == pytest.approx(1 / best, rel=1e-3)
    links = result.tables["links"].to_pandas()
    assert links[links.src.str.startswith("host")]["bytes"].sum() == pytest.approx(net.n_hosts * SECOND_BYTES, rel=1e-9)


@pytest.mark.compiled
def test_a_trace_on_routes_made_for_it() -> None:
    found = ns.replay("examples/traces/cg-8.parquet", topology="dragonfly", routing="engineered")
    assert found.status == "finished"
    assert found.provenance["routing"] == "engineered"
    with pytest.raises(InputError, match="multipath: is part of routing engineered, got subflows:2"):
        ns.replay("examples/traces/cg-8.parquet", topology="dragonfly", routing="engineered", multipath="subflows:2")


def test_hosts_that_forward_may_choose_too() -> None:
    found = ns.replay("examples/traces/cg-8.parquet", topology="bcube", routing="adaptive", ranks_per_host=2)
    assert found.status == "finished"
    assert found.summary["paths"]["minimal_share"] == 1.0


@pytest.mark.parametrize(
    "options", [{"routing": "engineered"}, {"routing": "ugal-l"}, {"routing": "ecmp", "multipath": "spray:4"}]
)
@pytest.mark.parametrize(
    "rows", [[("compute", {})], [("send", {"peer": 1, "bytes": 0}), ("recv", {"peer": 0, "bytes": 0})]]
)
def test_nothing_to_send_and_empty_messages(options: dict, rows: list) -> None:
    trace = ns.Trace.from_rows(n_ranks=2, rows=[{"rank": r, "op": op, **more} for r, (op, more) in enumerate(rows)])
    found = ns.replay(trace, topology="dragonfly", **options)
    assert found.status == "finished"
    assert found.summary["network_bytes"] == 0


@pytest.mark.parametrize(
    "options", [{"routing": "engineered"}, {"routing": "ugal-g"}, {"routing": "ecmp", "multipath": "spray:4"}]
)
def test_flows_of_one_pair_at_different_times(options: dict) -> None:
    flows = ns.Trace.from_flows(
        n_ranks=6, src=[0, 0, 2, 3], dst=[1, 1, 2, 1], bytes=[10**6, 10**6, 5, 0], start_ns=[0, 10, 0, 0]
    )
    found = ns.replay(flows, topology=small(1), **options)
    assert found.status == "finished"
    assert found.tables["flows"].num_rows == 4
