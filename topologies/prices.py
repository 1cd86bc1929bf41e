"""What a network costs and draws: ports, cables and transceivers counted from its links, times an editable table."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from netsim.core.arrays import Int64
from netsim.core.errors import InputError, closest
from netsim.core.units import format_rate, from_gbps, to_gbps
from netsim.topologies.topology import Topology

__all__ = ["BUILT_IN", "Bill", "BillRow", "Price", "Prices", "bill", "cable_rows", "read_prices"]

BUILT_IN = Path(__file__).with_name("prices.toml")
_PIECES = ("switch_port", "host_port", "optical_switch_port", "transceiver", "fibre", "copper")
_NUMBERS = ("cost_usd", "cost_usd_per_gbps", "power_w", "power_w_per_gbps")
_SOURCES = ("cost_source", "power_source")
_MEDIA = ("copper", "fibre", "board")
_WORDS = {
    "switch_port": "switch ports",
    "host_port": "host ports",
    "optical_switch_port": "optical switch ports",
    "transceiver": "transceivers",
    "fibre": "fibres",
    "copper": "copper cables",
}


@dataclass(frozen=True, kw_only=True)
class Price:
    """Cost in USD and power in W of one piece: a part of its own and one per Gb/s; and where the numbers come from."""

    cost_usd: float = 0.0
    cost_usd_per_gbps: float = 0.0
    power_w: float = 0.0
    power_w_per_gbps: float = 0.0
    cost_source: str = ""
    power_source: str = ""


@dataclass(frozen=True, kw_only=True)
class Prices:
    """A table of prices.

    Attributes
    ----------
    pieces : mapping of str to Price
    layers : mapping of str to str
        Pattern of a layer's name to ``copper``, ``fibre`` or ``board``; the first that fits counts.
    """

    pieces: Mapping[str, Price]
    layers: Mapping[str, str]

    def medium(self, layer: str) -> str:
        """What the cables of a layer are."""
        return next((medium for name, medium in self.layers.items() if fnmatchcase(layer, name)), "fibre")


@dataclass(frozen=True, kw_only=True)
class BillRow:
    """So many pieces of one kind and speed, and what all of them cost and draw."""

    piece: str
    gbps: float
    count: int
    cost_usd: float
    power_w: float


@dataclass(frozen=True, kw_only=True)
class Bill:
    """Result of :func:`bill`.

    Attributes
    ----------
    rows : tuple of BillRow
    n_unlimited : int
        Cables without a limit, which have no price.
    prices : Prices
    n_hosts : int
    """

    rows: tuple[BillRow, ...]
    n_unlimited: int
    prices: Prices
    n_hosts: int

    @property
    def cost_usd(self) -> float:
        """Of everything."""
        return math.fsum(row.cost_usd for row in self.rows)

    @property
    def power_w(self) -> float:
        """Of everything."""
        return math.fsum(row.power_w for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text."""
        used = dict.fromkeys(row.piece for row in self.rows)
        return {
            "cost_usd": self.cost_usd,
            "power_w": self.power_w,
            "bill": [dict(row.__dict__) for row in self.rows],
            "bill_sources": {p: {key: getattr(self.prices.pieces[p], key) for key in _SOURCES} for p in used},
            "bill_cables_without_limit": self.n_unlimited,
        }

    def lines(self) -> list[tuple[str, str]]:
        """Rows of a description: name and text."""
        if not self.rows:
            return []
        total = f"{self.cost_usd:,.0f} USD, {self.power_w / 1000:,.4g} kW"
        if self.n_hosts:
            total += f", {self.cost_usd / self.n_hosts:,.0f} USD and {self.power_w / self.n_hosts:,.3g} W per host"
        rows = [("cost, power", total)]
        for row in self.rows:
            text = f"{row.count:>8,} {_WORDS[row.piece]} of {format_rate(from_gbps(row.gbps))}"
            rows.append(("", f"{text:44}  {row.cost_usd:>14,.0f} USD  {row.power_w / 1000:>10,.4g} kW"))
        if self.n_unlimited:
            rows.append(("", f"{self.n_unlimited:>8,} cables without a limit, not counted"))
        assumed = {
            key: all(
                getattr(self.prices.pieces[row.piece], f"{key}_source").startswith("assumption") for row in self.rows
            )
            for key in ("cost", "power")
        }
        some = any(
            getattr(self.prices.pieces[row.piece], key).startswith("assumption")
            for row in self.rows
            for key in _SOURCES
        )
        if some:
            what = "costs are assumptions" if assumed["cost"] else "some of these are assumptions"
            if assumed["cost"]:
                what += ", and all powers too" if assumed["power"] else ", and some powers too"
            rows.append(("", f"{what}; sources with --json, your own with --prices FILE"))
        return rows


def read_prices(path: str | Path | None = None) -> Prices:
    """The built-in table, with what a TOML file changes.

    Parameters
    ----------
    path : str or Path, optional
        A file like ``netsim/topologies/prices.toml``; pieces and numbers it leaves out stay as built in. A number
        whose source it does not tell has the file as its source. Its layers come before the built-in ones.

    Raises
    ------
    InputError
        The file cannot be read, or has an unknown name or a number that is negative or none.

    Examples
    --------
    >>> read_prices().pieces["copper"].cost_usd, read_prices().medium("host")
    (40.0, 'copper')
    """
    built_in = _checked(BUILT_IN, tomllib.loads(BUILT_IN.read_text(encoding="utf-8")))
    pieces = {piece: Price(**built_in[piece]) for piece in _PIECES}
    layers: dict[str, str] = built_in["layers"]
    if path is None:
        return Prices(pieces=pieces, layers=layers)
    file = Path(path)
    try:
        own = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(str(file), "cannot be read", got=error.strerror) from None
    except ValueError as error:
        raise InputError(str(file), "must be TOML", got=str(error).splitlines()[0]) from None
    own = _checked(file, own)
    for piece, given in own.items():
        if piece == "layers":
            continue
        merged = {**pieces[piece].__dict__, **given}
        for kind in ("cost", "power"):
            if f"{kind}_source" not in given and any(key.startswith(kind) for key in given):
                merged[f"{kind}_source"] = str(file)
        pieces[piece] = Price(**merged)
    mine: dict[str, str] = own.get("layers", {})
    return Prices(pieces=pieces, layers={**mine, **{k: v for k, v in layers.items() if k not in mine}})


def _checked(file: Path, table: dict[str, Any]) -> dict[str, Any]:
    for name, section in table.items():
        if name not in (*_PIECES, "layers"):
            raise InputError(str(file), "unknown piece", got=repr(name), remedy=closest(name, (*_PIECES, "layers")))
        if not isinstance(section, dict):
            raise InputError(f"{file} {name}", "must be a table of its own", got=repr(section))
        for key, value in section.items():
            where = f"{file} {name}.{key}"
            if name == "layers":
                if value not in _MEDIA:
                    raise InputError(
                        where, "unknown kind of cable", got=repr(value), remedy=closest(str(value), _MEDIA)
                    )
            elif key in _SOURCES:
                if not isinstance(value, str):
                    raise InputError(where, "must be text", got=repr(value))
            elif key not in _NUMBERS:
                raise InputError(where, "unknown key", got=repr(key), remedy=closest(key, (*_NUMBERS, *_SOURCES)))
            elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InputError(where, "must be a number, 0 or more", got=repr(value))
    return table


def cable_rows(topology: Topology) -> tuple[Int64, Int64]:
    """One link for each set of parallel cables of one layer and capacity, and how many cables these are.

    Links both ways between two vertices are paired; one without an opposite one is a cable of its own.

    Examples
    --------
    >>> from netsim.topologies import full_mesh
    >>> link, count = cable_rows(full_mesh(2, hosts=0, trunk=3))
    >>> link.tolist(), count.tolist()
    ([0], [3])
    """
    t = topology
    low, high = np.minimum(t.link_src, t.link_dst), np.maximum(t.link_src, t.link_dst)
    order = np.lexsort((np.arange(t.n_links), t.link_capacity_bytes_per_s, t.link_layer, high, low))
    columns = (low, high, t.link_layer, t.link_capacity_bytes_per_s)
    new = np.ones(t.n_links, dtype=bool)
    if t.n_links:
        new[1:] = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
    which = np.cumsum(new) - 1
    there = np.bincount(which, weights=t.link_src[order] < t.link_dst[order])
    back = np.bincount(which) - there
    return order[new].astype(np.int64), np.maximum(there, back).astype(np.int64)


def bill(topology: Topology, prices: Prices | None = None) -> Bill:
    """Count switch ports, host ports, cables and transceivers, and what they cost and draw.

    Each end of a cable is a port of a switch or of a host; the cable is copper or fibre by its layer, with a transceiver
    at each end of a fibre. Ports that stay empty, nodes and racks are not counted. Cables without a limit have no price.
    Links whose layer begins with "optical" pass an optical switch on two of its ports, each with a fibre of its own.

    Parameters
    ----------
    topology : Topology
    prices : Prices, optional
        By default the built-in ones.

    Examples
    --------
    Two hosts at 100 Gb/s on a switch: 2 switch ports, 2 host ports, 2 copper cables.

    >>> from netsim.topologies import star
    >>> found = bill(star(2))
    >>> [(row.piece, row.count) for row in found.rows], found.cost_usd == 2 * (100 * 1 + 100 * 4 + 40 + 0.4 * 100)
    ([('switch_port', 2), ('host_port', 2), ('copper', 2)], True)
    """
    t = topology
    table = read_prices() if prices is None else prices
    link, number = cable_rows(t)
    gbps = to_gbps(t.link_capacity_bytes_per_s[link])
    finite = np.isfinite(gbps)
    media = np.array([_MEDIA.index(table.medium(name)) for name in t.layer_names], dtype=np.int64)[t.link_layer[link]]
    crosses = np.array([name.startswith("optical ") for name in t.layer_names])[t.link_layer[link]]
    host_ends = (t.link_src[link] < t.n_hosts).astype(np.int64) + (t.link_dst[link] < t.n_hosts)
    cabled = media != _MEDIA.index("board")
    fibre = media == _MEDIA.index("fibre")
    counts = {
        "switch_port": number * (2 - host_ends) * cabled,
        "host_port": number * host_ends * cabled,
        "optical_switch_port": 2 * number * crosses * fibre,
        "transceiver": 2 * number * fibre,
        "fibre": number * fibre * np.where(crosses, 2, 1),
        "copper": number * (media == _MEDIA.index("copper")),
    }
    rows = []
    for piece, pieces in counts.items():
        price = table.pieces[piece]
        for speed in np.unique(gbps[finite & (pieces > 0)]).tolist():
            count = int(pieces[gbps == speed].sum())
            rows.append(
                BillRow(
                    piece=piece,
                    gbps=speed,
                    count=count,
                    cost_usd=count * (price.cost_usd + price.cost_usd_per_gbps * speed),
                    power_w=count * (price.power_w + price.power_w_per_gbps * speed),
                )
            )
    return Bill(rows=tuple(rows), n_unlimited=int(number[~finite].sum()), prices=table, n_hosts=t.n_hosts)
