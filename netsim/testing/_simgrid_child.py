"""Runs inside the interpreter that has SimGrid, which need not have netsim or numpy: see `netsim.testing.peer`."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import resource
import sys
from array import array
from pathlib import Path
from typing import Any


def load() -> Any:
    """The simgrid module, whose wheel lays its library beside the extension without a run path: that goes first."""
    found = importlib.util.find_spec("simgrid")
    if found is None or found.origin is None:
        sys.exit("no module simgrid")
    for library in sorted(Path(found.origin).parent.glob("libsimgrid.so.*")):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    return importlib.import_module("simgrid")


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def main(case: str, out: str, flags: list[str]) -> None:
    """Read the case, run it, write the finish times, print the CPU seconds without those of the platform."""
    sg = load()
    with open(case, "rb") as file:

        def read(code: str, n: int) -> array[Any]:
            values = array(code)
            values.fromfile(file, n)
            return values

        links, hosts, routes, hops, transfers, edges = read("q", 6)
        capacity = read("d", links)
        route_src, route_dst = read("q", routes), read("q", routes)
        route_ptr, route_link = read("q", routes + 1), read("q", hops)
        src, dst = read("q", transfers), read("q", transfers)
        start, size = read("d", transfers), read("d", transfers)
    if edges:
        sys.exit("dependent transfers need the C++ interface")
    engine = sg.Engine(["peer", *flags])
    zone = engine.netzone_root.add_netzone_full("zone")
    host = [zone.add_host(f"h{i}", 1e9) for i in range(hosts)]
    link = [sg.LinkInRoute(zone.add_link(f"l{i}", value).seal()) for i, value in enumerate(capacity)]
    for r in range(routes):
        path = [link[x] for x in route_link[route_ptr[r] : route_ptr[r + 1]]]
        zone.add_route(host[route_src[r]], host[route_dst[r]], path, False)
    zone.seal()
    begin = cpu_s()
    comms: list[Any] = [None] * transfers
    for i in sorted(range(transfers), key=start.__getitem__):
        if start[i] > engine.clock:
            engine.run_until(start[i])
        comms[i] = sg.Comm.sendto_init(host[src[i]], host[dst[i]]).set_payload_size(int(size[i]))
        comms[i].start()
    engine.run()
    finish = array("d", [comm.finish_time for comm in comms])
    used = cpu_s() - begin
    with open(out, "wb") as written:
        finish.tofile(written)
    print(used)


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(load().Engine(["peer"]) is not None)
    else:
        main(sys.argv[1], sys.argv[2], sys.argv[3:])
