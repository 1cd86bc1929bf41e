"""Pictures of networks: structure in the positions, every registered family, files that depend on the network alone."""

from __future__ import annotations

import builtins
import itertools
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import netsim as ns
from netsim.core.errors import InputError
from netsim.report import draw_topology
from netsim.report.stress import stress_layout
from netsim.report.topology_layout import layout
from netsim.topologies import topologies

FAMILIES = [name for name in topologies if name != "file"]


def _net(name):
    return ns.topologies.build(name, n_hosts=24) if topologies[name].sizer else ns.topologies.build(name)


@pytest.mark.parametrize("name", FAMILIES)
def test_switches_of_every_family_are_told_apart(name):
    net = _net(name)
    found = layout(net)
    spots = found.xy[net.n_hosts :]
    assert np.isfinite(found.xy).all()
    assert found.xy.shape == (net.n_vertices, 2)
    size = np.ptp(found.xy, axis=0).max()
    for a, b in itertools.combinations(range(len(spots)), 2):
        assert np.linalg.norm(spots[a] - spots[b]) > size / 500, (name, a, b)


def test_rows_of_a_tree_are_its_levels():
    net = ns.topologies.xgft(m=(4, 3, 2), w=(1, 2, 3))
    y = layout(net).xy[:, 1]
    for u, v in zip(net.link_src, net.link_dst):
        assert abs(y[u] - y[v]) == 1
    assert np.unique(y, return_counts=True)[1].tolist() == [24, 6, 4, 6]


def test_dragonfly_groups_keep_together():
    net = ns.topologies.dragonfly(2)
    spots = layout(net).xy[net.n_hosts :].reshape(9, 4, 2)
    centre = spots.mean(axis=1)
    inside = np.linalg.norm(spots - centre[:, None], axis=2).max()
    between = min(np.linalg.norm(centre[a] - centre[b]) for a, b in itertools.combinations(range(9), 2))
    assert 2 * inside < between
    assert np.allclose(np.linalg.norm(centre, axis=1), 1)


def test_hosts_stand_by_their_own_switch():
    net = ns.topologies.dragonfly(2)
    found = layout(net).xy
    gap = np.linalg.norm(found[: net.n_hosts, None] - found[None, net.n_hosts :], axis=2)
    assert np.array_equal(gap.argmin(axis=1), np.arange(net.n_hosts) // 2)


def test_torus_links_are_one_step_or_wrap():
    net = ns.topologies.torus((4, 5))
    found = layout(net)
    between = (net.link_src >= net.n_hosts) & (net.link_dst >= net.n_hosts)
    length = np.linalg.norm(found.xy[net.link_src] - found.xy[net.link_dst], axis=1)
    wraps = np.any(found.stub != 0, axis=1)
    assert wraps.sum() == 2 * (4 + 5)
    assert np.allclose(length[between & ~wraps], 1)
    assert not np.any(np.any(layout(ns.topologies.mesh((4, 5))).stub != 0, axis=1))


def test_stress_of_a_path_is_zero_on_a_line_and_of_a_cycle_on_a_circle():
    path = stress_layout(6, np.arange(5), np.arange(1, 6))
    gap = np.linalg.norm(path[:, None] - path[None], axis=2)
    assert np.allclose(gap / gap[0, 1], np.abs(np.subtract.outer(np.arange(6), np.arange(6))), atol=0.02)
    ring = stress_layout(12, np.arange(12), (np.arange(12) + 1) % 12)
    radius = np.linalg.norm(ring - ring.mean(axis=0), axis=1)
    assert radius.max() < 1.02 * radius.min()


def test_two_parts_without_a_link_between_them_are_drawn():
    net = ns.topologies.Topology.from_links(n_hosts=0, n_switches=5, source=[0, 1, 2, 3], destination=[1, 0, 3, 2])
    assert np.isfinite(layout(net).xy).all()


def test_files_depend_on_the_network_alone(tmp_path):
    net = ns.topologies.fat_tree(4)
    for suffix in ("svg", "png", "pdf"):
        draw_topology(net, tmp_path / f"a.{suffix}")
        draw_topology(net, tmp_path / f"b.{suffix}")
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()
    text = "".join(ET.parse(tmp_path / "a.svg").getroot().itertext())
    for words in ("fat_tree", "16 hosts", "8 edge switches", "4 core switches", "16 cables of 100 Gb/s, 200 ns"):
        assert words in text


def test_parallel_cables_are_one_line_and_counted_in_the_legend(tmp_path):
    one, four = (ns.topologies.full_mesh(3, hosts=0, trunk=k) for k in (1, 4))
    lines = [draw_topology(net).axes[0].collections for net in (one, four)]
    assert [sum(len(c.get_segments()) for c in drawn) for drawn in lines] == [3, 3]
    assert lines[1][0].get_linewidths()[0] > lines[0][0].get_linewidths()[0]
    assert "12 cables" in draw_topology(four).legends[0].get_texts()[1].get_text()


def test_a_long_legend_stays_on_the_page():
    net = ns.topologies.dragonfly(2)
    rate = np.where(net.link_layer == 1, net.link_capacity_bytes_per_s * np.linspace(0.1234, 3.21, net.n_links), 1e9)
    mixed = ns.topologies.Topology.from_links(
        n_hosts=net.n_hosts,
        n_switches=net.n_switches,
        source=net.link_src,
        destination=net.link_dst,
        capacity=rate,
        latency=np.linspace(1.234e-7, 9.876e-6, net.n_links),
        layer=net.link_layer,
        layer_names=net.layer_names,
    )
    figure = draw_topology(mixed)
    assert figure.legends[0].get_window_extent(figure.canvas.get_renderer()).x1 <= figure.bbox.width


def test_errors_name_the_remedy(tmp_path, monkeypatch):
    net = ns.topologies.star(3)
    with pytest.raises(InputError, match=r"p\.gif: unknown kind of picture, got '\.gif'; use \.svg, \.png, \.pdf$"):
        draw_topology(net, tmp_path / "p.gif")
    with pytest.raises(InputError, match=r"cannot be written, got No such file or directory$"):
        draw_topology(net, tmp_path / "none" / "p.svg")
    with pytest.raises(
        InputError, match="drawing: shows up to 300,000 vertices and cables, got 300,001; draw a smaller"
    ):
        draw_topology(ns.topologies.star(150_000))
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        InputError, match=r"^drawing: needs matplotlib, which is not installed; pip install 'netsim-eo\[report\]'$"
    ):
        draw_topology(net, tmp_path / "p.svg")


def test_command(tmp_path, capsys):
    from netsim.cli import main

    def call(*words):
        with pytest.raises(SystemExit) as stop:
            main(["topo", "draw", *words])
        return stop.value.code, capsys.readouterr()

    file = tmp_path / "net.svg"
    assert call("--topo", "dragonfly", "--hosts", "70", "-o", str(file), "--title", "Ours") == (
        0,
        (f"wrote {file}\n", ""),
    )
    assert "Ours" in file.read_text()
    code, said = call("star", "--topo", "mesh", "-o", str(file))
    assert (code, said.err) == (
        2,
        "netsim: error: topology: must be given once, as NAME or --topo NAME, got star and mesh\n",
    )
