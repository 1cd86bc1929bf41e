"""Registries: names, and what other packages add."""

from __future__ import annotations

from netsim.core.registry import Registry


def test_a_plugin_may_register_by_decorator(monkeypatch):
    made = Registry("thing", "netsim.test_things")

    class Point:
        name = "mine"

        @staticmethod
        def load():
            made.register("mine")("registered")
            return "the bare function"

    monkeypatch.setattr(
        "netsim.core.registry.entry_points", lambda group: [Point] if group == "netsim.test_things" else []
    )
    assert made["mine"] == "registered"
    assert list(made) == ["mine"]


def test_a_plugin_may_be_the_thing_itself(monkeypatch):
    made = Registry("thing", "netsim.test_things")
    point = type("Point", (), {"name": "other", "load": staticmethod(lambda: "loaded")})
    monkeypatch.setattr("netsim.core.registry.entry_points", lambda group: [point])
    assert made["other"] == "loaded"
    assert "mine" not in made
