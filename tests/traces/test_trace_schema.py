from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from netsim.traces import schema
from netsim.traces._document import document

ROOT = Path(__file__).resolve().parents[2]


def test_documentation_is_up_to_date() -> None:
    assert (ROOT / "docs" / "trace-format.md").read_text() == document()


def test_module_prints_the_documentation() -> None:
    done = subprocess.run([sys.executable, "-m", "netsim.traces.schema"], capture_output=True, text=True, check=True)
    assert done.stdout == document()
    assert done.stderr == ""


def test_every_name_of_the_schema_is_documented() -> None:
    text = document()
    for columns in [*schema.COLUMNS.values(), *schema.SIDE_TABLES.values()]:
        for column in columns.values():
            assert f"| `{column.name}` | `{column.type}` |" in text
    for op in schema.OPS:
        assert f"| `{op.name}` | {op.kind} |" in text
    for flag in schema.FLAGS:
        assert f"| {flag.bit} | {2**flag.bit} | `{flag.name}` |" in text


def test_flags_are_the_bits_of_the_format() -> None:
    # The bits are part of the file format: they must never move.
    assert dict(schema.FLAG) == {
        "nonblocking": 1, "persistent": 2, "in_place": 4, "synchronous": 8, "any_source": 16, "any_tag": 32,
        "cancelled": 64, "unchained": 128, "grouped": 256, "decomposed": 512, "size_unknown": 1024,
    }  # fmt: skip


def test_operation_codes_are_positions_and_names_unique() -> None:
    assert len(set(schema.OP_NAMES)) == len(schema.OPS) < 128
    assert all(schema.OPS[code].name == name for name, code in schema.OP_CODE.items())


@pytest.mark.parametrize("table", [*schema.COLUMNS, *schema.SIDE_TABLES])
def test_every_column_has_an_arrow_type_and_optional_ones_a_default_or_null(table: str) -> None:
    columns = schema.COLUMNS[table] if table in schema.COLUMNS else schema.SIDE_TABLES[table]
    assert schema.arrow_schema(table).names == list(columns)
    for column in columns.values():
        assert isinstance(schema.arrow_type(column), pa.DataType)
        assert column.required or column.nullable or column.default is not None


def test_importing_the_schema_does_not_import_arrow() -> None:
    code = "import sys, netsim.traces.schema; print('pyarrow' in sys.modules, 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
