"""What holds for every registered generator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from netsim.core.errors import InputError
from netsim.traces import check_trace, read_trace
from netsim.traffic import workloads as package
from netsim.traffic.workloads import build, workloads

# Smaller than the defaults where those take long.
SMALL = {
    "tf-stream": "iterations=3",
    "tf-matmul": "n=64,tile=16",
    "tf-cg": "n=64,iterations=3",
    "tf-fft": "log2_points=12,tiles=16",
    "llm-training": "model=test-moe,tensor=2,pipeline=2,expert=2",
    "llm-serving": "model=test-gpt,tensor=2,output=5",
}


def spec(name: str) -> str:
    return f"{name}:{SMALL[name]}" if name in SMALL else name


@pytest.mark.parametrize("name", list(workloads))
def test_calls_fit_together_and_say_what_they_are(name: str, tmp_path: Path) -> None:
    work = build(spec(name))
    trace = work.trace()
    report = check_trace(trace)
    assert report.ok, report.lines()
    assert trace.n_rows > 0
    # All that is communicated belongs to a phase with a name.
    phase = trace.column("phase")
    assert phase.min() >= 0
    assert phase.max() < len(work.phases)
    assert set(range(len(work.phases))) == set(phase.tolist())
    assert work.notes
    assert work.name == name
    assert trace.meta.source["workload"] == name
    work.write(tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet").content_hash == trace.content_hash


@pytest.mark.parametrize("name", list(workloads))
def test_documented_with_its_source_and_all_parameters(name: str) -> None:
    made = workloads[name]
    text = made.function.__doc__
    assert re.search(r"^ +Source: ", text, re.M), "no source"
    assert "{parameters}" not in text
    assert any(p.name == "n_ranks" for p in made.parameters)
    for p in made.parameters:
        assert f"\n    {p.name} : " in text
        assert p.name in made.help()
    assert made.function.__name__ in package.__all__


# Numbers of ranks that a generator takes, with the parameters above; all, if it is not here.
TAKES = {
    "tf-stream": lambda n: n >= 2,
    "tf-matmul": lambda n: n >= 3,
    "tf-cg": lambda n: n >= 2,
    "tf-fft": lambda n: n >= 2,
    "spark": lambda n: n >= 2,
    "incast": lambda n: n >= 2,
    "datacenter-flows": lambda n: n >= 2,
    "parameter-server": lambda n: n >= 2,
    "checkpoint": lambda n: n >= 5,
    "kv-migration": lambda n: n % 2 == 0,
    "lulesh": lambda n: n in (1, 8, 27),
    "llm-training": lambda n: n % 8 == 0,
    "llm-serving": lambda n: n % 2 == 0 and n >= 4,
    "storm": lambda n: n == 8,
    "olap": lambda n: n == 12,
    "workflow": lambda n: n == 6,
}


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5, 7, 8, 12, 27])
@pytest.mark.parametrize("name", list(workloads))
def test_any_number_of_ranks_that_makes_sense(name: str, n_ranks: int) -> None:
    known = {p.name for p in workloads[name].parameters}
    fewer = {"iterations": 1, "checkpoints": 1, "jobs": 1, "requests": 30}
    few = {key: value for key, value in fewer.items() if key in known and f"{key}=" not in SMALL.get(name, "")}
    if not TAKES.get(name, lambda n: True)(n_ranks):
        with pytest.raises(InputError):
            build(spec(name), n_ranks=n_ranks, **few)
        return
    work = build(spec(name), n_ranks=n_ranks, **few)
    assert work.n_ranks == n_ranks
    report = check_trace(work.trace())
    assert report.ok, report.lines()


def test_text_and_values_are_the_same() -> None:
    a = build("tf-cg:n=64,iterations=2,memory=1GB/s,queue=1us", n_ranks=3).trace()
    b = package.tf_cg(n_ranks=3, n=64, iterations=2, memory=1e9, queue=1e-6).trace()
    assert a.table.to_pydict() == b.table.to_pydict()
    assert a.meta.source["parameters"] == "n_ranks=3,n=64,iterations=2,memory=1GB/s,queue=1us,collective=reducer"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tf-gc", "workload: unknown name, got 'tf-gc'; did you mean 'tf-cg'? valid: "),
        ("tf-cg:m=5", "workload tf-cg: unknown parameter, got 'm'; "),
        ("tf-cg:nranks=5", "workload tf-cg: unknown parameter, got 'nranks'; did you mean 'n_ranks'? valid: "),
        ("tf-cg:n", "workload tf-cg: parameters are written key=value, got 'n'"),
        ("tf-cg:n=1,n=2", "workload tf-cg n: was given twice, got 1 and 2"),
        ("tf-cg:n=0", "tf-cg n: must be a whole number, 1 or more, got 0"),
        ("tf-cg:queue=5", "tf-cg queue: a bare number could mean several units of time, got '5'; write '5ns' or '5us'"),
        ("tf-cg:collective=tree", "tf-cg collective: unknown choice, got 'tree'; "),
        ("tf-fft:flops_per_s=nan", "tf-fft flops_per_s: must be a finite number above 0, got 'nan'"),
        ("tf-fft:tiles=3", "workload tf-fft tiles: must divide the number of points, 2^29, got 3"),
        ("tf-matmul:n=5,tile=2", "workload tf-matmul n: must be a multiple of the tile, 2, got 5"),
        ("tf-matmul:overlap=maybe", "tf-matmul overlap: must be yes or no, got 'maybe'"),
        ("tf-stream:size=128", "tf-stream size: a bare number could mean several units of size, got '128'; "),
        ("tf-stream:size=0B", "tf-stream size: must be 1 B or more, got 0B"),
        ("tf-stream:n_ranks=1", "tf-stream n_ranks: must be a whole number, 2 or more, got 1"),
    ],
)
def test_bad_specs_are_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        build(text)
    assert str(caught.value).startswith(message)


def test_a_parameter_is_given_once() -> None:
    with pytest.raises(InputError, match="workload tf-cg n_ranks: was given twice, got 4 and 5"):
        build("tf-cg:n_ranks=4", n_ranks=5)


def test_a_workload_is_replayed_without_a_file(tmp_path, capsys) -> None:
    import json

    import netsim as ns
    from netsim.cli import main
    from netsim.traffic.workloads import build

    work = build("halo3d:cells=8,iterations=2", n_ranks=8)
    path = tmp_path / "halo.parquet"
    work.write(path)
    from_file, direct = ns.replay(path, topology="torus"), ns.replay(work, topology="torus")
    assert from_file.makespan_s == direct.makespan_s
    assert from_file.tables["ops"].equals(direct.tables["ops"])
    with pytest.raises(SystemExit):
        main(["replay", "halo3d:cells=8,iterations=2", "--ranks", "8", "--topo", "torus", "--json"])
    assert json.loads(capsys.readouterr().out)["summary"]["makespan_s"] == direct.makespan_s
    with pytest.raises(SystemExit) as stop:
        main(["replay", str(path), "--ranks", "8"])
    assert stop.value.code == 2
    assert "option --ranks: goes with a workload by name" in capsys.readouterr().err
