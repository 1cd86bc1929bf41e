"""Options out of range, empty, or absurd: one line each, nothing run."""

from __future__ import annotations

import sys

import pytest

BAD = {
    "empty output": (["-o", ""], "option --output: must be a path, got ''"),
    "empty routing": (["--routing", ""], "option --routing: must be a name, got ''"),
    "empty placement": (["--placement", " "], "option --placement: must be a name, got ' '"),
    "empty topology": (["--topo", ""], "option --topo: must be a name, got ''"),
    "NUL in a path": (
        ["-o", "a\0b"],
        "output folder a\\x00b: must be writable, got embedded null byte; choose another with -o",
    ),
    "scale is NaN": (["--compute-scale", "nan"], "compute scale: must be finite and 0 or more, got nan"),
    "scale is negative": (["--compute-scale", "-1"], "compute scale: must be finite and 0 or more, got -1.0"),
    "no speed": (["--flops", "0"], "speed of a rank: must be finite and positive, got 0.0"),
    "no local rate": (["--local-rate", "0Gbps"], "local rate: must be positive, got 0.0"),
    "negative bins": (["--bins", "-2"], "time bins: must be an even number, 0 or more, got -2"),
    "many bins": (["--bins", "1000002"], "time bins: must be an even number from 0 to 1000000, got 1000002"),
    "absurd bins": (["--bins", str(10**25)], f"time bins: must be an even number from 0 to 1000000, got {10**25}"),
    "absurd ranks per host": (
        ["--ranks-per-host", str(10**25)],
        f"ranks per host: must be 2147483647 or less, got {10**25}",
    ),
    "rate is NaN": (
        ["--local-rate", "nanGbps"],
        "option --local-rate: rate must not be negative or NaN, got 'nanGbps'; write e.g. '100Gbps' or '100GB/s'",
    ),
    "negative time": (
        ["--send-overhead", "-1us"],
        "option --send-overhead: time must not be negative or NaN, got '-1us'; write e.g. '1ns' or '1us'",
    ),
    "infinite time": (
        ["--send-overhead", "infs"],
        "protocol send_overhead_s: must be finite and 0 or more seconds, got inf",
    ),
    "parameter of an algorithm that has none": (
        ["--collectives", "allreduce=ring(segments=0)"],
        "collective algorithm 'allreduce/ring': unknown parameter, got 'segments'; valid: (none)",
    ),
    "size of a network": (["-p", f"n={10**30}"], f"star n: must be 2147483647 or less, got {10**30}"),
}


@pytest.mark.parametrize("case", BAD)
def test_values_out_of_range_are_named(refused, trace_file, case):
    words, message = BAD[case]
    topology = [] if "--topo" in words else ["--topo", "star"]
    assert refused("replay", trace_file, *topology, *words) == message


@pytest.mark.parametrize(
    "option", [["--send-overhead", "1e300s"], ["-p", "latency=1e300s"], ["-p", "capacity=1e-300Gbps"]]
)
def test_runs_longer_than_times_can_be_stored_are_refused(refused, trace_file, option):
    line = refused("replay", trace_file, "--topo", "star", *option)
    assert line.startswith("simulated time: must stay below 9.22e+09 s, the range of 64-bit nanoseconds, got ")
    assert line.endswith("; look for a wrong unit among gaps, overheads, latencies and capacities")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces the limit")
def test_a_network_larger_than_memory_is_one_line(refused, trace_file, monkeypatch):
    # A machine with 300 MB free; each array of the 40 million links takes 160 MB or more.
    monkeypatch.setattr("netsim.cli.memory.available_bytes", lambda: 300_000_000)
    line = refused("replay", trace_file, "--topo", "star", "-p", "n=20000000", status=1)
    assert line == "memory: this needs more than the machine has free; use a smaller network or trace, or --bins 0"


@pytest.mark.parametrize("seed", [-1, 10**30])
def test_any_whole_number_is_a_seed(run, trace_file, seed):
    assert run("replay", trace_file, "--topo", "star", "--placement", "random", "--seed", seed)[0] == 0
