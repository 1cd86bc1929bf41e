"""Named machines: parameters of a generator, each number with its source, and what the model leaves out.

``--topo frontier`` builds one; its parameters can be changed like those of any topology. Only what is published is here:
what is not (latencies, for one) stays at the generator's default or is named as an assumption.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netsim.core.registry import Registry

__all__ = ["Machine", "machines"]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine as a topology.

    Attributes
    ----------
    summary : str
        One line.
    family : str
        Generator.
    params : mapping
        Its parameters.
    hosts : str
        What a host of the model is in the machine.
    sources : tuple of str
        Where the numbers are from.
    assumed : str
        What is not published and had to be chosen.
    left_out : str
        What the machine has and the model does not.
    """

    summary: str
    family: str
    params: Mapping[str, Any]
    hosts: str
    sources: tuple[str, ...]
    assumed: str
    left_out: str

    def help(self, name: str) -> str:
        """All of it as text."""
        shown = " ".join(
            f"{key}={'x'.join(map(str, value)) if isinstance(value, tuple) else value}"
            for key, value in self.params.items()
        )
        rows = [
            ("built as", f"{self.family} {shown}"),
            ("a host is", self.hosts),
            *(("source", text) for text in self.sources),
            ("assumed", self.assumed),
            ("left out", self.left_out),
        ]
        return "\n".join([f"{name}: {self.summary}", *(f"  {key:9}  {text}" for key, text in rows)])


machines: Registry[Machine] = Registry("machine", "netsim.machines")

machines.register("frontier")(
    Machine(
        summary="Frontier (OLCF, 2022): HPE Slingshot dragonfly of 74 groups, 4 links between two groups",
        family="dragonfly",
        params={"p": 16, "a": 32, "h": 10, "g": 74, "capacity": "200Gbps"},
        hosts="a network card; the 4 of a node are 4 hosts in a row (rank placement: 4 hosts per node)",
        sources=(
            "glennklockwood.com/garden/systems/frontier: 74 cabinets, each a group of 128 nodes with 4 cards, 32 switches of "
            "64 ports of 200 Gb/s, 16 down, 31 within the group, 4 links to every other group",
        ),
        assumed="which switches the 4 links of two groups are on (10 ports per switch, in rounds); which switches the "
        "cards of a node are on (one); latencies",
        left_out="that 64 of 9,472 places have no node; groups for storage and services; ports of a switch that stay empty",
    )
)
machines.register("theta")(
    Machine(
        summary="Theta (ALCF, 2017): Cray XC40, Aries dragonfly of 12 groups, each a 6 x 16 flattened butterfly",
        family="cascade",
        params={
            "p": 4,
            "rows": 6,
            "columns": 16,
            "h": 10,
            "g": 12,
            "row_trunk": 3,
            "host_capacity": "15.75GB/s",
            "local_capacity": "42Gbps",
            "global_capacity": "37.5Gbps",
        },
        hosts="a node",
        sources=(
            "docs.alcf.anl.gov/theta/hardware-overview: 24 racks, two of them a group, 4,392 compute nodes",
            "support.nesi.org.nz, XC50 Aries Network Architecture: 4 nodes per router, 16 routers per chassis, 6 chassis per "
            "group; 15 links per router in the chassis, 15 between chassis, 10 optical; lanes of 14, 14 and 12.5 Gb/s",
            "theregister.com 2012/11/08, XC30: 90 electrical and 30 optical lanes per router, hence 3 per link; 64 lanes "
            "of PCI Express for 4 nodes",
        ),
        assumed="that all optical ports are cabled (87 links between two groups) and where they lead; a node's link is "
        "PCI Express 3.0 x16 without overhead of its packets; latencies",
        left_out="that 216 of 4,608 places have service nodes or none",
    )
)
machines.register("summit")(
    Machine(
        summary="Summit (OLCF, 2018): dual-rail EDR InfiniBand, non-blocking fat-tree of 256 racks of 18 nodes",
        family="xgft",
        params={"m": (18, 512), "w": (1, 18), "capacity": "100Gbps"},
        hosts="a port of a node: in each rack hosts 0 to 17 are the first ports of its nodes, 18 to 35 the second",
        sources=(
            "eetimes.com, Inside the Summit supercomputer: 256 racks with two switches each, cables of 100 Gb/s, 18 racks "
            "of core switches",
            "en.wikichip.org/wiki/supercomputers/summit: 18 nodes per rack, non-blocking, two rails",
        ),
        assumed="that each rack of core switches acts as one switch, with one link to each of the 512 switches in the "
        "racks; that the rails of a node end on the two switches of its rack; latencies",
        left_out="the stages inside the core switches; storage and its 40 racks",
    )
)
machines.register("tpu_v4")(
    Machine(
        summary="TPU v4 pod (Google, 2020): 4,096 chips, torus of 64 blocks of 4x4x4 joined by 48 optical switches",
        family="torus",
        params={"dims": (16, 16, 16), "block": (4, 4, 4), "capacity": "50GB/s", "host_capacity": "300GB/s"},
        hosts="a chip, which forwards traffic of others: its switch stands for its ports to 6 neighbours",
        sources=(
            "N. Jouppi et al., TPU v4: An Optically Reconfigurable Supercomputer for Machine Learning, ISCA 2023: 4,096 "
            "chips, blocks of 64, 48 optical switches",
            "glennklockwood.com/garden/processors/TPUv4: 6,144 optical fibre ends, 400 Gb/s per link and direction",
        ),
        assumed="the largest torus of the many that the optical switches can set; the link between a chip and its ports "
        "is as fast as 6 of the others (300 GB/s); latencies",
        left_out="the network of the CPU hosts; spare ports of the optical switches; the 10 s that setting them takes",
    )
)
machines.register("dgx_superpod")(
    Machine(
        summary="NVIDIA DGX SuperPOD with B200: 4 scalable units of 32 nodes of 8 GPUs, rail-optimised NDR InfiniBand",
        family="rail_optimized",
        params={
            "nodes": 128,
            "gpus": 8,
            "radix": 64,
            "unit": 32,
            "capacity": "400Gbps",
            "nvlink_capacity": "900GB/s",
        },
        hosts="a GPU with its network card",
        sources=(
            "docs.nvidia.com/dgx-superpod, reference architecture B200, table of 2 to 64 scalable units: leaves, spines, "
            "cores, cables; -p nodes=64 to 2048 gives each row",
            "DGX SuperPOD reference architecture RA-11333-001, 2023: NDR InfiniBand of 400 Gb/s",
        ),
        assumed="NVLink 5 of 900 GB/s per GPU and direction; which links go to which spine; latencies",
        left_out="the nodes whose ports the fabric manager takes; storage and management networks",
    )
)
