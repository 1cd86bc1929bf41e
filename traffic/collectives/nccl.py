"""NCCL's choice between ring and double binary tree for allreduce: a cost model, its constants as data.

Facts of NCCL 2.8 (``src/graph/tuning.cc`` @01afd20): for every algorithm and protocol it estimates latency + bytes /
bandwidth and takes the least. Later versions changed the constants and added algorithms (NVLS): make your own
``NcclModel`` with other numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from netsim.core.errors import InputError
from netsim.traffic.collectives.call import Call

__all__ = ["PROTOCOLS", "NcclModel"]

PROTOCOLS = ("LL", "LL128", "Simple")

_LATENCY_US = MappingProxyType(
    {
        ("base", "tree"): (4.4, 4.4, 0.0),
        ("base", "ring"): (3.6, 10.0, 8.4),
        ("nvlink", "tree"): (0.52, 1.2, 28.0),
        ("nvlink", "ring"): (0.47, 1.9, 3.4),
        ("pci", "tree"): (1.0, 1.9, 28.0),
        ("pci", "ring"): (1.0, 2.5, 5.7),
        ("net", "tree"): (5.0, 8.5, 50.0),
        ("net", "ring"): (2.7, 4.0, 9.6),
    }
)
# By protocol, for 64 B, 128 B, ... 128 MiB: how much of the modelled bandwidth the tree reaches.
_TREE_CORRECTION = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.5, 0.6, 0.6, 0.7, 0.7, 0.8, 0.9, 0.9, 1),
    (0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9),
)
_GIGA = 1e9


@dataclass(frozen=True, kw_only=True)
class NcclModel:
    """Machine and constants.

    The default machine has the shape of nodes with 8 GPUs on NVLink and 8 NICs of 200 Gb/s; give your own.

    Attributes
    ----------
    ranks_per_node : int
    channels : int
        Rings, or pairs of trees, that run side by side.
    intra_bytes_per_s, inter_bytes_per_s : float
        Bandwidth of one channel within a node (used up to two nodes), and between nodes.
    intra_link : str
        ``"nvlink"`` or ``"pci"``.
    ampere : bool
        All GPUs have compute capability 8.0: other ceilings.
    ll128 : bool
        Protocol LL128 is enabled (by default NCCL does so only on NVLink machines).
    latency_us : mapping
        (link, algorithm) to the latencies of ``PROTOCOLS``, in microseconds.
    tree_correction : tuple
        By protocol and size class, see above.
    ll128_bytes_per_s : float
        Ceiling of LL128 per channel, for allreduce.

    Examples
    --------
    >>> model = NcclModel(ranks_per_node=8)
    >>> model.choose(Call(op="allreduce", n=1024, size_bytes=4096))
    'allreduce/double_binary_tree(ranks_per_node=8)'
    >>> model.choose(Call(op="allreduce", n=16, size_bytes=1 << 30))
    'allreduce/nccl_ring'
    """

    ranks_per_node: int = 8
    channels: int = 8
    intra_bytes_per_s: float = 20e9
    inter_bytes_per_s: float = 20e9
    intra_link: str = "nvlink"
    ampere: bool = True
    ll128: bool = True
    latency_us: Mapping[tuple[str, str], tuple[float, ...]] = field(default_factory=lambda: _LATENCY_US, repr=False)
    tree_correction: tuple[tuple[float, ...], ...] = field(default=_TREE_CORRECTION, repr=False)
    ll128_bytes_per_s: float = 16.7e9

    def __post_init__(self) -> None:
        if self.ranks_per_node < 1 or self.channels < 1:
            raise InputError("NCCL model", "ranks_per_node and channels must be 1 or more")
        if not (self.intra_bytes_per_s > 0 and self.inter_bytes_per_s > 0):
            raise InputError("NCCL model", "bandwidths must be positive")
        if self.intra_link not in ("nvlink", "pci"):
            raise InputError("NCCL model", "intra_link must be 'nvlink' or 'pci'", got=repr(self.intra_link))

    def shape(self, n: int) -> tuple[int, int]:
        """Ranks per node and nodes of n ranks."""
        per_node = min(self.ranks_per_node, n)
        return per_node, -(-n // per_node)

    def time_s(self, *, n: int, size_bytes: int, algorithm: str, protocol: str) -> float:
        """Modelled time of an allreduce, in seconds.

        Parameters
        ----------
        n, size_bytes : int
            Ranks and length of the vector.
        algorithm, protocol : str
            ``"ring"`` or ``"tree"``; one of ``PROTOCOLS``.
        """
        which = PROTOCOLS.index(protocol)
        per_node, nodes = self.shape(n)
        base = self.latency_us["base", algorithm][which]
        intra = self.latency_us[self.intra_link, algorithm][which] * (1.8 if nodes > 1 and protocol == "LL" else 1.0)
        inter = self.latency_us["net", algorithm][which]
        bus = self.channels * (self.intra_bytes_per_s if nodes <= 2 else self.inter_bytes_per_s)
        if self.ampere:
            bus = min(bus, 235 * _GIGA)
        if algorithm == "ring":
            bus, latency = self._ring(n, per_node, nodes, protocol, bus, base, intra, inter)
            if protocol == "Simple" and nodes > 1 and size_bytes >= n / 16 * 65536:
                latency *= 1.9
        else:
            bus = self._tree(nodes, protocol, bus)
            latency = base + 2 * ((n // nodes - 1) * intra + (nodes.bit_length() - 1) * inter)
            size_class = max(size_bytes >> 6, 1).bit_length() - 1
            if size_class < len(self.tree_correction[which]):
                bus *= self.tree_correction[which][size_class]
        return latency * 1e-6 + size_bytes / bus

    def _ring(
        self, n: int, per_node: int, nodes: int, protocol: str, bus: float, base: float, intra: float, inter: float
    ) -> tuple[float, float]:
        if protocol == "LL":
            bus /= 4
        elif protocol == "LL128":
            bus = min(bus * (0.7 if per_node < 2 else 0.92), self.ll128_bytes_per_s * self.channels)
        steps, between = 2 * (n - 1), 2 * (nodes - 1)
        return bus * n / steps, base + (steps - between) * intra + between * inter

    def _tree(self, nodes: int, protocol: str, bus: float) -> float:
        fast = self.ampere and protocol == "LL128"
        ceiling = (105 if fast else 80) if nodes > 2 else (130 if fast else 110)
        bus = min(bus * 0.9, ceiling * _GIGA)
        if protocol == "LL":
            bus /= 3.8
        elif protocol == "LL128":
            bus = min(bus * (7 / 9 if nodes == 1 else 0.915), self.ll128_bytes_per_s * self.channels * 7 / 9)
        return bus / 2

    def choose(self, call: Call) -> str:
        """The faster algorithm for an allreduce, over all protocols; the ring when they tie."""
        if call.n == 1:
            return "allreduce/nccl_ring"
        protocols = [p for p in PROTOCOLS if p != "LL128" or self.ll128]
        best = {
            name: min(self.time_s(n=call.n, size_bytes=call.size_bytes, algorithm=name, protocol=p) for p in protocols)
            for name in ("ring", "tree")
        }
        if best["ring"] <= best["tree"]:
            return "allreduce/nccl_ring"
        per_node, _ = self.shape(call.n)
        # Nodes that are not all full have no regular place for their ranks in the tree: then one tree over all ranks.
        listed = f"(ranks_per_node={per_node})" if per_node > 1 and call.n % per_node == 0 else ""
        return f"allreduce/double_binary_tree{listed}"
