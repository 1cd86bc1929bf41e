"""Replays with circuits: never slower than without, known gains, accounting, arms, the command line, bad settings."""

import json

import networkx as nx
import numpy as np
import pytest
from click.testing import CliRunner

import netsim as ns
from netsim.cli.main import cli
from netsim.core.errors import InputError
from netsim.optics import Optics, pays_off
from netsim.study import compare_optics
from netsim.study.optics import upgraded
from netsim.topologies import from_networkx, torus
from netsim.traffic import Protocol
from netsim.traffic.taskgraph import GraphBuilder


def pairs_on_a_ring(n, size):
    """Each host of a ring of n sends to the one opposite."""
    build = GraphBuilder(n_ranks=n)
    for i in range(n):
        build.transfer(source=i, destination=(i + n // 2) % n, size_bytes=size)
    return build.graph()


RATE = 12.5e9


def test_opposite_pairs_of_a_ring():
    """Eight hosts, opposite pairs: 4 hops on 16 arcs, two flows a link at best; a circuit for each pair leaves one flow on it."""
    net = torus((8,), latency=0.0)
    graph = pairs_on_a_ring(8, 1.25e6)
    alone = ns.simulate(graph, topology=net)
    lit = ns.simulate(graph, topology=net, optics="eefi:ports=1,delay=0s,latency=0s")
    # Two directions of one circuit, each with one flow at the full rate, on every pair.
    assert lit.makespan_s == pytest.approx(1.25e6 / RATE)
    assert alone.makespan_s >= 2 * lit.makespan_s * (1 - 1e-9)
    lights = lit.summary["optics"]
    assert lights["circuits_set_up"] == 4
    assert lights["optical_bytes"] == pytest.approx(8 * 1.25e6)
    assert lights["electrical_only_s"] == pytest.approx(alone.makespan_s)


def test_dark_for_the_delay_and_no_longer():
    """Dark for a quarter of the electrical time: so much of the bytes has gone, the rest takes the circuits at full rate."""
    net = torus((8,), latency=0.0)
    graph = pairs_on_a_ring(8, 1.25e6)
    alone = ns.simulate(graph, topology=net).makespan_s
    delay = alone / 4
    lit = ns.simulate(graph, topology=net, optics=Optics(ports=1, delay=f"{delay * 1e6}us", latency="0s"))
    slowest = delay + (1.25e6 - delay * 1.25e6 / alone) / RATE
    assert lit.makespan_s == pytest.approx(slowest, rel=1e-6)


@pytest.mark.parametrize("policy", ["fallback", "wait", "drain"])
@pytest.mark.parametrize("know", ["oracle", "stale", "measured"])
def test_never_slower_than_without_when_that_is_known(policy, know):
    rng = np.random.default_rng(4)
    build = GraphBuilder(n_ranks=12)
    last = [None] * 12
    for _ in range(60):
        a, b = rng.choice(12, 2, replace=False).tolist()
        task = build.transfer(source=a, destination=b, size_bytes=float(rng.integers(1, 10)) * 1e5)
        if last[a] is not None:
            build.edge(last[a], task)
        last[a] = task
    graph = build.graph()
    net = torus((3, 4))
    alone = ns.simulate(graph, topology=net).makespan_s
    window = "window=50us" if know != "oracle" else "window=inf"
    text = f"eefi:ports=2,delay=5us,policy={policy},know={know}" + (f",{window}" if know != "oracle" else "")
    found = ns.simulate(graph, topology=net, optics=text, certify=True)
    assert found.status == "finished"
    if know != "measured":
        assert found.makespan_s <= alone * (1 + 1e-12)
    again = ns.simulate(graph, topology=net, optics=text, certify=True)
    assert again.content_hash == found.content_hash


def test_left_dark_where_it_does_not_pay():
    found = ns.simulate(pairs_on_a_ring(8, 1e3), topology=torus((8,)), optics="eefi:delay=10ms")
    assert found.summary["optics"]["circuits_set_up"] == 0
    assert found.makespan_s == ns.simulate(pairs_on_a_ring(8, 1e3), topology=torus((8,))).makespan_s


def test_what_if_takes_back_a_bad_choice():
    """Circuits lit at any price, in the dark for long with traffic waiting: what-if returns the run without."""
    text = "eefi:delay=1ms,policy=wait,hysteresis=no"
    graph, net = pairs_on_a_ring(8, 1e4), torus((8,))
    plain = ns.simulate(graph, topology=net)
    bad = ns.simulate(graph, topology=net, optics=text + ",what-if=no")
    good = ns.simulate(graph, topology=net, optics=text)
    assert bad.makespan_s > 1e-3 > plain.makespan_s
    assert good.makespan_s == plain.makespan_s
    assert good.summary["optics"]["slower"]


@pytest.mark.parametrize("calls", [1, 2])
def test_ctrl_c_ends_the_run_and_not_its_first_half(calls):
    """Interrupted without circuits or with them: in either case nothing more is run."""
    left = [calls]

    def interrupt(progress):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    found = ns.simulate(pairs_on_a_ring(8, 1e6), topology=torus((8,)), optics="eefi:delay=0s", progress=interrupt)
    assert found.status == "interrupted"
    # Each run tells of its progress once at least.
    assert left[0] == 0


def test_ctrl_c_ends_a_comparison():
    trace = ns.Trace.from_rows(n_ranks=8, rows=[{"rank": r, "op": "alltoall", "bytes": 10**5} for r in range(8)])

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare_optics(trace, topology=torus((8,)), progress=interrupt)


def test_break_even():
    """One bottleneck: worth it if and only if more bytes than the electrical link moves in the dark time."""
    c_e, c_o, delta = 12.5e9, 25e9, 0.01
    for size in (0.2, 0.99, 1.01, 5.0):
        size *= c_e * delta
        assert pays_off(size / c_e, size / c_e, size / (c_e + c_o), delta) == (size > c_e * delta)
    # Circuits that stand are given up for better ones: twice as slow in the dark, which what comes back often pays for.
    assert not pays_off(1.0, 2.0, 0.9, 1.5, repeats=2)
    assert pays_off(1.0, 2.0, 0.9, 1.5, repeats=20)


def test_arms():
    rows = [{"rank": rank, "op": "alltoall", "bytes": 10**5} for rank in range(8)]
    trace = ns.Trace.from_rows(n_ranks=8, rows=rows)
    arms, results = compare_optics(
        trace, topology=torus((8,)), optics="eefi:ports=2,delay=1us", protocol=Protocol.ideal(), learn=trace,
        arms=("electrical", "upgrade", "random", "hottest", "stale", "measured", "given", "oracle"),
    )  # fmt: skip
    by_name = {arm.name: arm for arm in arms}
    assert len(results) == len(arms) == 8
    assert by_name["electrical"].gain == 0
    for name in ("stale", "given", "oracle"):
        assert by_name[name].gain >= -1e-12
    assert by_name["upgrade"].gain > 0
    assert by_name["oracle"].gain > 0.1
    # Learnt from the same run: as good as knowing it.
    assert by_name["given"].makespan_s == pytest.approx(by_name["oracle"].makespan_s, rel=0.05)


def test_the_upgrade_spends_what_the_ports_would_cost():
    net = torus((4, 4))
    inner = net.link_layer != net.layer_names.index("host")
    wide = upgraded(net, Optics(ports=2, capacity="100Gbps"))
    more = (wide.link_capacity_bytes_per_s - net.link_capacity_bytes_per_s)[inner].sum()
    assert more == pytest.approx(16 * 2 * RATE)
    assert (wide.link_capacity_bytes_per_s == net.link_capacity_bytes_per_s)[~inner].all()


BAD = [
    ("efi", "circuit selector: unknown name, got 'efi'; did you mean 'eefi'?"),
    ("eefi:port=2", "optics: unknown setting, got 'port'; did you mean 'ports'?"),
    ("eefi:ports=two", "optics ports: must be a whole number, got 'two'"),
    ("eefi:ports", "optics ports: needs a value, got 'ports'; write ports=..."),
    ("eefi:ports=-1", "ports: must be 0 or more, got -1"),
    ("eefi:delay=10", "reconfiguration delay: "),
    ("eefi:delay=-1ms", "reconfiguration delay: "),
    ("eefi:policy=hope", "optics policy: must be one of fallback, wait, drain, got 'hope'"),
    ("eefi:know=all", "optics know: must be one of oracle, stale, measured, given, got 'all'"),
    ("eefi:know=measured", "optics: know=measured needs a window, got none; add window=10ms, for example"),
    ("eefi:know=given", "optics: know=given needs a demand, got none; give one learnt from an earlier run"),
    ("eefi:window=0s", "optics window: "),
    (
        "eefi:window=10ms,delay=8ms,guard=2ms",
        "optics window: must be longer than a reconfiguration with its guard time, at least 10 ms, got 10 ms",
    ),
    ("eefi:ports=2000000", "optical ports: must be 4,000,000 or fewer in all, got 8,000,000 on 1 cores"),
    ("eefi:all-stop=perhaps", "optics all_stop: must be yes or no, got 'perhaps'"),
    ("eefi:repeats=0", "optics repeats: must be finite and above 0, got 0.0"),
    ("eefi:repeats=many", "optics repeats: must be a number, got 'many'"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_settings(text, message):
    with pytest.raises(InputError) as error:
        ns.simulate(pairs_on_a_ring(4, 1e3), topology=torus((4,)), optics=text)
    assert str(error.value).startswith(message)


def test_hosts_without_switches_are_refused():
    net = from_networkx(nx.cycle_graph(4, create_using=nx.Graph), capacity=1.0, latency=0.0)
    build = GraphBuilder(n_ranks=1)
    build.delay(rank=0, seconds=1.0)
    with pytest.raises(InputError):
        ns.simulate(build.graph(), topology=net, optics="eefi")


def command(*words):
    outcome = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_commands(tmp_path):
    rows = [{"rank": r, "op": "alltoall", "bytes": 10**5} for r in range(8)]
    path = tmp_path / "all.parquet"
    ns.traces.write_trace(ns.Trace.from_rows(n_ranks=8, rows=rows), path)
    spec = ["--topo", "torus", "-p", "dims=8", "--optics", "eefi:ports=1,delay=1us"]
    told = command("optics", "settings")
    assert "ports=4" in told
    assert "Optical ports of each switch" in told
    assert "eefi" in told
    plan = json.loads(command("optics", "plan", str(path), *spec, "--json"))
    assert len(plan["circuits"]) == 4
    assert "eefi: 4 circuits" in command("optics", "plan", str(path), *spec)
    arms = json.loads(command("optics", "compare", str(path), *spec, "--arms", "electrical,oracle", "--json"))["arms"]
    assert [a["name"] for a in arms] == ["electrical", "oracle"]
    assert arms[1]["makespan_s"] <= arms[0]["makespan_s"]
    shown = command("replay", str(path), *spec)
    assert "circuits set up" in shown
