"""What is shipped, what imports cost, and that the layers hold."""

from __future__ import annotations

import doctest
import importlib
import importlib.metadata
import json
import os
import pkgutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import netsim

ROOT = Path(__file__).parents[1]
PARTS = ("traces", "traffic", "topologies", "routing")


def modules():
    # Walk the package as it is imported: installed wheel or checkout.
    found = ["netsim"]
    for info in pkgutil.walk_packages(netsim.__path__, "netsim."):
        if info.name != "netsim.__main__":
            found.append(info.name)
    return sorted(found)


def test_every_module_imports_and_every_part_is_there():
    names = modules()
    for part in PARTS:
        assert sum(name.startswith(f"netsim.{part}.") for name in names) >= 3, part
    for name in names:
        importlib.import_module(name)


@pytest.mark.parametrize("name", modules())
def test_doctests(name):
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0


def test_the_wheel_holds_all_packages_and_data(tmp_path):
    pytest.importorskip("build", reason="needs the package build")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
        text=True,
    )
    wheel = next(tmp_path.glob("*.whl"))
    names = set(zipfile.ZipFile(wheel).namelist())
    folders = {"netsim": "netsim", **{part: f"netsim/{part}" for part in PARTS}}
    for folder, inside in folders.items():
        for path in (ROOT / folder).rglob("*"):
            relative = path.relative_to(ROOT / folder)
            linked = folder == "netsim" and relative.parts[0] in PARTS
            if path.is_file() and "__pycache__" not in path.parts and not linked:
                assert f"{inside}/{relative}" in names
    assert not any(name.split("/")[0] in PARTS for name in names)


def test_layers():
    # The contracts are read from pyproject.toml; they need the checkout's link farm, not the wheel.
    outcome = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stdout


def test_importing_netsim_imports_nothing_heavy():
    code = (
        "import sys, json, netsim; "
        "print(json.dumps([m for m in ('numpy','numba','pandas','pyarrow','networkx','scipy','rich','click') if m in sys.modules]))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(loaded) == []


def test_help_imports_only_click():
    code = (
        "import sys, json\nfrom netsim.cli.main import cli\n"
        "try:\n    cli.main(['--help'], standalone_mode=False)\nexcept SystemExit: pass\n"
        "print(json.dumps([m for m in ('numpy','numba','pandas','pyarrow','networkx','scipy','rich') if m in sys.modules]))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(output.splitlines()[-1]) == []


def test_core_dependencies_need_no_compiler_and_no_mpi():
    requires = [r for r in importlib.metadata.requires("netsim-eo") or [] if "extra ==" not in r]
    assert not any("mpi" in r.lower() for r in requires)


def test_version_is_the_distributions():
    assert importlib.metadata.version("netsim-eo") == netsim.__version__
