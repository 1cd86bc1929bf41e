"""Placement and topology files of every broken kind, and paths that are no text."""

from __future__ import annotations

import os
import sys

import pytest

import netsim as ns

BAD_PLACEMENT = {
    "empty": (b"", ": must place all 4 ranks, got no host for rank 0"),
    "short": (b"0\n1\n2\n", ": must place all 4 ranks, got no host for rank 3"),
    "long": (b"0\n1\n2\n3\n0\n", ", entry 5: ranks must be 0..3, got 4"),
    "negative": (b"0\n-1\n2\n3\n", ", entry 2: each line must be a host number or 'rank,host', got '-1'"),
    "beyond int32": (b"0\n1\n2\n99999999999\n", ", entry 4: hosts must be 0..2147483647, got 99999999999"),
    "float": (b"0\n1.0\n2\n3\n", ", entry 2: each line must be a host number or 'rank,host', got '1.0'"),
    "underscore": (b"0\n1_0\n2\n3\n", ", entry 2: each line must be a host number or 'rank,host', got '1_0'"),
    "three fields": (b"0,1,2\n", ", entry 1: each line must be a host number or 'rank,host', got '0,1,2'"),
    "twice": (b"rank,host\n0,0\n0,1\n", ", entry 2: each rank must occur once, got rank 0 again"),
    "huge": (
        b"9" * 5000,
        ", entry 1: each line must be a host number or 'rank,host', got '" + "9" * 56 + "...",
    ),
    "huge field": (
        b"0," + b"1" * 200_000,
        ", entry 1: each line must be a host number or 'rank,host', got '" + "1" * 56 + "...",
    ),
    "not text": (
        b"\xff\xfe\x00",
        ": must be a readable text file, got 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ),
}


@pytest.mark.parametrize("case", BAD_PLACEMENT)
def test_broken_placement_files_are_named(refused, trace_file, tmp_path, case):
    content, message = BAD_PLACEMENT[case]
    path = tmp_path / "places"
    path.write_bytes(content)
    line = refused("replay", trace_file, "--topo", "star", "--placement", f"file:{path}")
    assert line == f"placement file {path}{message}"


def test_placement_folder_and_host_that_is_not_there(refused, trace_file, tmp_path):
    line = refused("replay", trace_file, "--topo", "star", "--placement", f"file:{tmp_path}")
    assert line == f"placement file {tmp_path}: must be a readable text file, got Is a directory"
    path = tmp_path / "places"
    path.write_text("0\n1\n2\n9\n")
    line = refused("replay", trace_file, "--topo", "star", "--placement", f"file:{path}")
    assert line == "rank 3: its host must be one of 0..3, got 9"


@pytest.mark.parametrize("text", ["\ufeffrank,host\n3,0\n2,1\n1,2\n0,3\n", "# c\r\n3\r\n2\r\n\r\n 1\r\n0\r\n"])
def test_placement_files_of_other_editors(tmp_path, text):
    path = tmp_path / "places"
    path.write_text(text, encoding="utf-8", newline="")
    star = ns.topologies.star(n=4)
    from netsim.jobs import place

    assert place(f"file:{path}", n_ranks=4, topology=star).host.tolist() == [3, 2, 1, 0]


STAR = "source,target\n" + "".join(f"host{i},s\n" for i in range(4))
NO_UTF8 = "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
BAD_TOPOLOGY = {
    "not text": (".csv", b"\xff\xfe\x80", f"must be a readable text file, got {NO_UTF8}"),
    "huge field": (".csv", STAR.encode() + b"x" * 200_000 + b",s\n", "must be CSV, got field larger than field limit (131072)"),
    "nested": (".json", b"[" * 100_000, None),
    "number of 5000 digits": (".json", b'{"n_links":' + b"9" * 5000 + b"}", None),
    "not JSON": (".json", b"", "must be JSON, got Expecting value: line 1 column 1 (char 0)"),
    "count differs": (".csv", b"# n_links=20\n" + STAR.encode(), "declares n_links=20, got 4 in the list"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TOPOLOGY)
def test_broken_topology_files_are_named(refused, tmp_path, case):
    suffix, content, message = BAD_TOPOLOGY[case]
    path = tmp_path / f"net{suffix}"
    path.write_bytes(content)
    line = refused("topo", "describe", path)
    assert line == f"{path}: {message}" if message else line.startswith(f"{path}: must be JSON, got ")


def test_counts_that_are_no_numbers_are_comments(run, tmp_path):
    path = tmp_path / "net.csv"
    path.write_text("# n_links=² n_hosts=" + "9" * 5000 + "\n" + STAR, encoding="utf-8")
    assert run("topo", "describe", path)[0] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="file names are Unicode there")
def test_paths_that_are_not_utf8(run, trace_file, tmp_path):
    odd = tmp_path / os.fsdecode(b"n\xff.parquet")
    trace_file.rename(odd)
    folder = tmp_path / os.fsdecode(b"out\xff")
    assert run("trace", "check", odd)[0] == 0
    status, _, err = run("replay", odd, "--topo", "star", "-o", folder)
    assert status == 0, err
    assert ns.read_result(folder).status == "finished"


def test_names_with_spaces_and_accents(run, trace_file, tmp_path):
    path = tmp_path / "a net é.csv"
    path.write_text("source,target\n" + "".join(f"host é {i},Knoten ß\n" for i in range(4)), encoding="utf-8")
    status, out, _ = run("replay", trace_file, "--topo", path)
    assert status == 0
    assert "host é 0 -> Knoten ß" in out


def test_special_files_are_no_traces(refused):
    assert (
        refused("trace", "info", "/dev/null") == "/dev/null: the file is empty, got 0 bytes; was it written completely?"
    )
