"""Cost and power: sums done by hand, the table and its changes, what a bad table says."""

from __future__ import annotations

import json

import numpy as np
import pytest

import netsim as ns
from netsim.core.errors import InputError
from netsim.topologies import bill, describe, read_prices
from netsim.topologies.prices import BUILT_IN, cable_rows

ROUND = """
switch_port = {cost_usd = 10, power_w = 1}
host_port = {cost_usd = 100, power_w = 2}
optical_switch_port = {cost_usd = 7, power_w = 0.5}
transceiver = {cost_usd = 1, cost_usd_per_gbps = 0.1, power_w = 0, power_w_per_gbps = 0.01}
fibre = {cost_usd = 3}
copper = {cost_usd = 5, cost_usd_per_gbps = 0, power_w = 0.25}
"""
ZERO = ("switch_port", "host_port")


@pytest.fixture
def prices(tmp_path):
    file = tmp_path / "mine.toml"
    # Numbers of the built-in table that are per Gb/s have to be set to 0 to be gone.
    text = ROUND
    for piece in ZERO:
        text = text.replace(f"{piece} = {{", f"{piece} = {{cost_usd_per_gbps = 0, power_w_per_gbps = 0, ")
    file.write_text(text)
    return read_prices(file)


def counts(net, prices):
    return {(row.piece, row.gbps): row.count for row in bill(net, prices).rows}


def test_dragonfly_by_hand(prices):
    # p=2, a=4, h=2: 9 groups, 36 routers; 72 host cables and 9 x 6 local ones of copper, 36 global ones of fibre.
    net = ns.topologies.dragonfly(2, capacity="100Gbps", global_capacity="200Gbps")
    assert counts(net, prices) == {
        ("switch_port", 100): 72 + 2 * 54,
        ("switch_port", 200): 2 * 36,
        ("host_port", 100): 72,
        ("copper", 100): 72 + 54,
        ("transceiver", 200): 2 * 36,
        ("fibre", 200): 36,
    }
    found = bill(net, prices)
    assert found.cost_usd == pytest.approx(252 * 10 + 72 * 100 + 126 * 5 + 72 * (1 + 20) + 36 * 3, rel=1e-12)
    assert found.power_w == pytest.approx(252 * 1 + 72 * 2 + 126 * 0.25 + 72 * 2, rel=1e-12)


def test_parallel_cables_and_trunks_count_each(prices):
    net = ns.topologies.hyperx((2, 3), hosts=0, trunk=(4, 2))
    # Dimension 0: 3 pairs of 4 cables; dimension 1: 2 triangles of 2 cables an edge.
    assert cable_rows(net)[1].sum() == 3 * 4 + 2 * 3 * 2
    assert counts(net, prices)["copper", 100] == 24


def test_layers_of_a_node_cost_nothing(prices):
    net = ns.topologies.rail_optimized(nodes=4, gpus=2, radix=8)
    leaf_spine = int((net.link_layer == net.layer_names.index("leaf-spine")).sum()) // 2
    found = counts(net, prices)
    assert found["host_port", 100] == found["copper", 100] == 8
    assert found["switch_port", 100] == 8 + 2 * leaf_spine
    assert not any(gbps == 3600 for _, gbps in found)


def test_one_way_links_are_cables_of_their_own(prices):
    net = ns.topologies.Topology.from_links(n_hosts=0, n_switches=3, source=[0, 1, 2], destination=[1, 2, 0])
    assert counts(net, prices) == {("switch_port", 100): 6, ("transceiver", 100): 6, ("fibre", 100): 3}


def test_a_cable_without_a_limit_has_no_price(prices):
    net = ns.topologies.star(3, capacity=float("inf"))
    found = bill(net, prices)
    assert (found.cost_usd, found.n_unlimited) == (0, 3)
    assert "cost" not in "\n".join(describe(net).lines())


def test_total_is_what_describe_and_expect_know(prices):
    net = ns.topologies.fat_tree(4)
    text = describe(net, prices=prices).to_dict()
    assert text["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in text["bill"]), rel=1e-12)
    # 80 switch ports, 16 host ports, 16 copper cables, 32 fibres with 64 transceivers, as built in.
    net.expect(
        cost_usd=80 * 100 + 16 * 400 + 16 * (40 + 40) + 32 * 50 + 64 * 200,
        power_w=80 * 3 + 16 * 6 + 16 * 0.2 + 64 * 2.25,
    )


def test_every_built_in_number_has_a_source():
    table = read_prices()
    for piece, price in table.pieces.items():
        for kind in ("cost", "power"):
            source = getattr(price, f"{kind}_source")
            assert source, (piece, kind)
            if source == "passive":
                assert price.power_w == price.power_w_per_gbps == 0


def test_a_file_changes_what_it_names_and_becomes_the_source(tmp_path):
    file = tmp_path / "quote.toml"
    file.write_text('[copper]\ncost_usd = 11\n[layers]\nlocal = "fibre"\n')
    table, built_in = read_prices(file), read_prices()
    assert (table.pieces["copper"].cost_usd, table.pieces["copper"].cost_source) == (11, str(file))
    assert table.pieces["copper"].power_source == built_in.pieces["copper"].power_source
    assert table.pieces["fibre"] == built_in.pieces["fibre"]
    assert (table.medium("local"), built_in.medium("local"), table.medium("host")) == ("fibre", "copper", "copper")
    # The built-in table read as a file changes nothing but where a number comes from.
    assert read_prices(BUILT_IN) == built_in


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[coper]\n", "unknown piece, got 'coper'; did you mean 'copper'"),
        ("[copper]\ncost = 1\n", "unknown key, got 'cost'; did you mean 'cost_usd'"),
        ("[copper]\ncost_usd = -1\n", "must be a number, 0 or more, got -1"),
        ("[copper]\ncost_usd = nan\n", "must be a number, 0 or more, got nan"),
        ("[copper]\ncost_usd = true\n", "must be a number, 0 or more, got True"),
        ("copper = 3\n", "must be a table of its own, got 3"),
        ("[layers]\nhost = 'glass'\n", "unknown kind of cable, got 'glass'"),
        ("[copper\n", "must be TOML"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_prices(file)
    assert str(file) in str(error.value)
    assert message in str(error.value)


def test_missing_table(tmp_path):
    with pytest.raises(InputError, match="cannot be read, got No such file"):
        read_prices(tmp_path / "none.toml")


def test_command(tmp_path, capsys):
    from netsim.cli import main

    file = tmp_path / "mine.toml"
    file.write_text("[copper]\ncost_usd = 1000\ncost_usd_per_gbps = 0\n")
    with pytest.raises(SystemExit):
        main(["topo", "describe", "--topo", "star", "-p", "n=2", "--prices", str(file), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["cost_usd"] == 2 * (1000 + 100 + 400)
    assert found["bill_sources"]["copper"]["cost_source"] == str(file)
    assert np.isclose(found["power_w"], 2 * (3 + 6 + 0.2))
