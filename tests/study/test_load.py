"""Load curves against queueing theory, fluid saturation and common sense."""

from __future__ import annotations

import json

import pytest

from netsim.cli import main
from netsim.core.errors import InputError
from netsim.routing import Demand, demand, saturation
from netsim.study import load_curve
from netsim.study.load import _Draws
from netsim.topologies import dragonfly, fat_tree, star, torus


@pytest.fixture
def run(capsys):
    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(words))
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return call


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_one_link_is_an_md1_queue(load: float) -> None:
    # Permutation traffic over one switch: 30 hosts, each a queue of its own, 3,000 messages: errors of some percent.
    net = star(30, latency=0.0)
    options = {"pattern": "shift+1", "routing": "minimal", "loads": [load], "messages_per_host": 4000}
    (fifo,) = load_curve(net, outstanding=1, **options).points
    (shared,) = load_curve(net, outstanding=None, **options).points
    assert fifo.slowdown_mean == pytest.approx(1 + load / (2 * (1 - load)), rel=0.05)
    assert shared.slowdown_mean == pytest.approx(1 / (1 - load), rel=0.05)
    assert fifo.accepted == pytest.approx(load, rel=0.03)
    assert not fifo.saturated
    # Half of the time an empty link: alone, exactly once its time.
    assert load_curve(net, outstanding=1, **{**options, "loads": [0.05]}).points[0].slowdown_p50 == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("net", "pattern", "routing"),
    [
        (dragonfly(2, 4, 2), "adv+1", "minimal"),
        (torus((8,)), "tornado", "dimension-order"),
        (fat_tree(4), "shift+5", "d-mod-k"),
    ],
)
def test_one_path_routings_accept_exactly_the_fluid_saturation(net, pattern: str, routing: str) -> None:
    limit = saturation(net, pattern=pattern, routing=routing).accepted
    below, above = load_curve(net, pattern=pattern, routing=routing, loads=[0.6 * limit, min(2.0, 1.5 * limit)]).points
    assert below.accepted == pytest.approx(below.offered, rel=0.05)
    # Never more than the links carry; and what is offered keeps the fullest ones busy nearly all of the time.
    assert 0.9 * limit < above.accepted <= limit * (1 + 1e-9)
    assert above.saturated
    assert above.slowdown_p99 > below.slowdown_p99


def test_adaptive_routing_accepts_more_than_either_of_its_parts() -> None:
    net = dragonfly(1, 2, 1)
    options = {"pattern": "adv+1", "loads": [1.0], "messages_per_host": 100}
    accepted = {
        r: load_curve(net, routing=r, **options).points[0] for r in ("minimal", "valiant", "ugal-g", "adaptive")
    }
    fluid = saturation(net, pattern="adv+1", routing="ugal-g").throughput
    for name in ("ugal-g", "adaptive"):
        assert max(accepted["minimal"].accepted, accepted["valiant"].accepted) < accepted[name].accepted
        assert accepted[name].accepted <= fluid * (1 + 1e-9)
        assert 0 < accepted[name].minimal_share < 1


def test_same_seed_same_curve_and_no_load_depends_on_another() -> None:
    net = dragonfly(1, 2, 1)
    options = {"pattern": "uniform", "routing": "ugal-l", "messages_per_host": 40}
    both = load_curve(net, loads=[0.3, 0.8], **options)
    assert both == load_curve(net, loads=[0.3, 0.8], **options)
    assert load_curve(net, loads=[0.8], **options).points[0] == both.points[1]
    assert load_curve(net, loads=[0.3, 0.8], seed=1, **options) != both


def test_destinations_have_the_shares_of_the_demand() -> None:
    net = star(8)
    wanted = demand(net, "hot-spot")
    draws = _Draws(net, wanted, 1000.0, 5000, 3)
    # A tenth to host 0, and of the other nine tenths a seventh each.
    to_zero = (draws.destination == 0)[draws.source != 0].mean()
    assert to_zero == pytest.approx(0.1 + 0.9 / 7, rel=0.03)
    assert (draws.source != draws.destination).all()
    several = Demand.of(4, [0, 0, 2], [1, 3, 0], [0.25, 0.75, 0.5])
    draws = _Draws(star(4), several, 1000.0, 5000, 3)
    own = draws.destination[draws.source == 0]
    assert set(own.tolist()) == {1, 3}
    assert (own == 3).mean() == pytest.approx(0.75, rel=0.03)
    assert set(draws.destination[draws.source == 2].tolist()) == {0}
    # Rates: half as much from host 2 in the same time.
    last = [draws.when[draws.source == host].max() for host in (0, 2)]
    assert last[1] / last[0] == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loads": [0.0]}, "offered load: must be above 0 and at most 2, got 0.0"),
        ({"loads": [float("nan")]}, "offered load: must be above 0 and at most 2, got nan"),
        ({"loads": []}, "offered load: must be above 0 and at most 2, got none"),
        ({"message_bytes": 0}, "message size: must be above 0 B, got 0 B"),
        ({"outstanding": 0}, "outstanding messages: must be 1 or more, or no limit, got 0"),
        (
            {"messages_per_host": 10**9},
            "load curve: must be 1 to 20000000 messages in all at the highest load, got 1000000000 per host on 6 hosts; "
            "take fewer messages per host, or a smaller network",
        ),
    ],
)
def test_bad_settings_are_one_line(options: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_curve(dragonfly(1, 2, 1), routing="minimal", **options)
    assert str(caught.value) == message


def test_the_command_shows_draws_and_compares(run, tmp_path) -> None:
    base = ["saturate", "-p", "p=1", "-p", "a=2", "-p", "h=1", "--pattern", "adv+1", "--messages", "30"]
    code, out, _ = run(*base, "--routing", "ugal-g", "--loads", "0.2,0.9", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["throughput"] == pytest.approx(0.75, rel=1e-8)
    assert [p["saturated"] for p in found["load_curve"]["points"]] == [False, True]
    picture = tmp_path / "curve.svg"
    drawn = ["--routing", "minimal", "--routing", "adaptive", "--loads", "0.1:0.3:0.1", "--plot", str(picture)]
    code, out, _ = run(*base, *drawn)
    assert code == 0
    assert out.count("load curve ") == 2
    assert "adaptive: has no fluid form, simulated only" in out
    first = picture.read_bytes()
    assert run(*base, *drawn)[0] == 0
    assert picture.read_bytes() == first
    assert "load curve" not in run(*base, "--routing", "optimum")[1]
    assert "not simulated for more than" in run("saturate", "--hosts", "1000")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loads", "0.1:2"], "option --loads: must be FROM:TO:STEP, a list such as 0.2,0.5, or none, got '0.1:2'"),
        (
            ["--loads", "1:0.1:0.1"],
            "option --loads: must be FROM:TO:STEP, a list such as 0.2,0.5, or none, got '1:0.1:0.1'",
        ),
        (
            ["--loads", "0.1:1:0"],
            "option --loads: must be FROM:TO:STEP, a list such as 0.2,0.5, or none, got '0.1:1:0'",
        ),
        (["--loads", "much"], "option --loads: must be FROM:TO:STEP, a list such as 0.2,0.5, or none, got 'much'"),
        (
            ["--loads", "none", "--plot", "x.svg"],
            "option --plot: needs loads to simulate, got --loads none; give --loads",
        ),
        (["--plot", "x.gif"], "x.gif: unknown kind of picture, got '.gif'; use .svg, .png, .pdf"),
        (["--loads", "nan"], "offered load: must be above 0 and at most 2, got nan"),
        (["--routing", "ugal-x"], "routing: unknown name, got 'ugal-x'"),
    ],
)
def test_bad_options_are_one_line(run, words: list[str], message: str) -> None:
    code, out, err = run("saturate", "-p", "p=1", "-p", "a=2", "-p", "h=1", *words)
    assert (code != 0, out) == (True, "")
    assert message in err
    assert err.count("\n") == 1
