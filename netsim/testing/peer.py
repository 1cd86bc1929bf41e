"""The same flows through SimGrid, the peer to compare with. Nothing here needs SimGrid until it is called.

SimGrid runs as a pure max-min simulator: all correction factors, latencies and cross traffic are off. Its clock works at about 1e-9
of its unit, so it is given microseconds.
"""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64
from netsim.core.errors import InputError, NetsimError

__all__ = ["MODES", "Peer", "PeerRun", "find_peer", "run_peer"]

CHILD = Path(__file__).with_name("_simgrid_child.py")
UNIT = 1e6
MODES = ("Full", "Lazy")
FLAGS = (
    "network/model:CM02", "network/crosstraffic:no", "network/TCP-gamma:0", "network/weight-S:0.0", "network/latency-factor:1.0",
    "network/bandwidth-factor:1.0", "precision/timing:1e-9", "precision/work-amount:1e-5",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Peer:
    """How SimGrid is called.

    Attributes
    ----------
    command : tuple of str
        Takes the paths of case and output, then SimGrid's own options.
    interface : str
        ``"Python"`` or ``"C++"``.
    """

    command: tuple[str, ...]
    interface: str


@dataclass(frozen=True, kw_only=True)
class PeerRun:
    """What SimGrid found.

    Attributes
    ----------
    finish_s : float64 array, shape (n_flows,)
        Empty when the run was stopped.
    cpu_s : float
        CPU seconds of making and running the flows, without start-up and platform; the limit when the run was stopped.
    stopped : bool
        The run reached its limit of CPU time.
    """

    finish_s: Float64
    cpu_s: float
    stopped: bool


def find_peer(python: str | None = None) -> Peer | None:
    """SimGrid of the given interpreter, or of this one; None when this one has none.

    Raises
    ------
    InputError
        The interpreter given cannot run SimGrid.

    Examples
    --------
    >>> find_peer("/bin/false")
    Traceback (most recent call last):
        ...
    netsim.core.errors.InputError: simgrid interpreter: must be a Python that can import simgrid, got '/bin/false'; pip install simgrid
    """
    if python is None and importlib.util.find_spec("simgrid") is None:
        return None
    interpreter = python or sys.executable
    try:
        tried = subprocess.run([interpreter, str(CHILD), "--version"], capture_output=True, check=False).returncode
    except OSError:
        tried = 1
    if tried != 0:
        if python is None:
            return None
        raise InputError(
            "simgrid interpreter",
            "must be a Python that can import simgrid",
            got=repr(python),
            remedy="pip install simgrid",
        )
    return Peer(command=(interpreter, str(CHILD)), interface="Python")


def run_peer(
    peer: Peer,
    *,
    capacity_bytes_per_s: npt.ArrayLike,
    ptr: npt.ArrayLike,
    link: npt.ArrayLike,
    src: npt.ArrayLike,
    dst: npt.ArrayLike,
    start_s: npt.ArrayLike,
    size_bytes: npt.ArrayLike,
    edge_from: npt.ArrayLike = (),
    edge_to: npt.ArrayLike = (),
    mode: str = "Full",
    limit_s: float | None = None,
) -> PeerRun:
    """Run flows through SimGrid.

    Parameters
    ----------
    peer : Peer
    capacity_bytes_per_s, ptr, link, start_s, size_bytes
        As in `netsim.engine.run_flows`; sizes are whole bytes.
    src, dst : array_like of int, shape (n_flows,)
        Hosts; flows of one pair take one route.
    edge_from, edge_to : array_like of int, optional
        A flow starts when all flows that have an edge to it are finished (C++ interface only; start times must be 0).
    mode : {"Full", "Lazy"}
        How SimGrid updates: Full is faster when all flows hang together, Lazy when they fall into many groups.
    limit_s : float, optional
        CPU seconds after which the run is stopped.

    Raises
    ------
    InputError
        Flows of one pair with different routes, sizes that are not whole, edges together with start times.
    NetsimError
        SimGrid failed.
    """
    pointer, links = np.asarray(ptr, dtype=np.int64), np.asarray(link, dtype=np.int64)
    source, destination = np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)
    start, size = np.asarray(start_s, dtype=np.float64), np.asarray(size_bytes, dtype=np.float64)
    earlier, later = np.asarray(edge_from, dtype=np.int64), np.asarray(edge_to, dtype=np.int64)
    if (size != np.rint(size)).any():
        raise InputError("flows for SimGrid", "sizes must be whole bytes", got=float(size[size != np.rint(size)][0]))
    if earlier.size and start.any():
        raise InputError("flows for SimGrid", "dependent flows must have start time 0")
    hosts = int(max(source.max(initial=0), destination.max(initial=0))) + 1
    _, first, pair = np.unique(source * hosts + destination, return_index=True, return_inverse=True)
    length = np.diff(pointer)
    route_ptr = np.concatenate([[0], np.cumsum(length[first])])

    def gather(of: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        count = length[of]
        at = np.repeat(pointer[of] - np.concatenate([[0], np.cumsum(count)[:-1]]), count)
        return links[at + np.arange(at.size)]

    if (length[first][pair] != length).any() or (gather(first[pair]) != links).any():
        raise InputError("flows for SimGrid", "flows of one pair of hosts must take one route")
    capacity = np.asarray(capacity_bytes_per_s, dtype=np.float64) / UNIT
    route_link = gather(first)
    header = np.array([capacity.size, hosts, first.size, route_link.size, source.size, earlier.size])
    parts: list[npt.NDArray[np.generic]] = [
        header, capacity, source[first], destination[first], route_ptr, route_link, source, destination, start * UNIT, size, earlier,
        later,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        case, out = Path(folder, "case"), Path(folder, "out")
        with case.open("wb") as file:
            for part in parts:
                file.write(np.ascontiguousarray(part).tobytes())
        flags = [*(f"--cfg={flag}" for flag in (*FLAGS, f"network/optim:{mode}")), "--log=root.thres:warning"]
        command = [*peer.command, str(case), str(out), *flags]
        if limit_s is not None:
            # CPU seconds, not wall: others may use the machine.
            command = ["/bin/sh", "-c", f'ulimit -t {int(np.ceil(limit_s))}; exec "$@"', "sh", *command]
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
        if limit_s is not None and -outcome.returncode in (signal.SIGXCPU, signal.SIGKILL):
            return PeerRun(finish_s=np.empty(0), cpu_s=limit_s, stopped=True)
        if outcome.returncode != 0:
            raise NetsimError("SimGrid", "must run these flows", got=(outcome.stderr.strip() or "no message")[-300:])
        finish = np.fromfile(out) / UNIT
    return PeerRun(finish_s=finish, cpu_s=float(outcome.stdout.split()[-1]), stopped=False)
