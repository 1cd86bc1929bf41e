"""``Result``: four Arrow tables, a summary and provenance; written atomically, read back as they were."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.core.errors import InputError, closest
from netsim.results.schema import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Result", "read_result"]

FORMAT = "netsim-result 1"


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """Outcome of one simulated run.

    Attributes
    ----------
    status : str
        ``"finished"``, or ``"interrupted"`` for a run stopped half-way: its tables hold what had happened by then.
    summary : mapping
        Numbers for people and scripts; units are in the names.
    tables : mapping of str to pyarrow.Table
        ``ops``, ``flows``, ``links``, ``ranks``; see ``netsim.results.COLUMNS``.
    provenance : mapping
        Versions, seeds, parameters and input hashes: what is needed to run it again.
    wall : mapping
        Wall time and speed of this very run; the only part that differs between two runs of the same input.
    """

    status: str
    summary: Mapping[str, Any]
    tables: Mapping[str, Any]
    provenance: Mapping[str, Any]
    wall: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {table.num_rows:,}" for name, table in self.tables.items())
        return f"<Result: {self.status}, makespan {self.makespan_s:.6g} s; rows: {sizes}>"

    @property
    def makespan_s(self) -> float:
        """Simulated time from the start of the first to the end of the last task, in seconds."""
        return float(self.summary["makespan_s"])

    def to_arrow(self, table: str) -> Any:
        """One table as a ``pyarrow.Table``."""
        try:
            return self.tables[table]
        except KeyError:
            raise InputError(
                "result table", "unknown name", got=repr(table), remedy=closest(table, self.tables)
            ) from None

    def to_pandas(self, table: str) -> pd.DataFrame:
        """One table as a pandas data frame; times stay int64 nanoseconds (nullable where a moment may never come)."""
        import pandas as pd
        import pyarrow as pa

        frame: pd.DataFrame = self.to_arrow(table).to_pandas(
            types_mapper=lambda kind: pd.Int64Dtype() if kind == pa.int64() else None
        )
        return frame

    @property
    def content_hash(self) -> str:
        """sha256 over status, summary, provenance and all tables: equal for equal input, version and seed."""
        digest = hashlib.sha256()
        digest.update(json.dumps([self.status, self.summary, self.provenance], sort_keys=True).encode())
        for name in sorted(self.tables):
            table = self.tables[name].combine_chunks()
            digest.update(name.encode())
            for column in table.column_names:
                digest.update(column.encode())
                for chunk in table.column(column).chunks:
                    for buffer in _canonical(chunk):
                        digest.update(buffer)
        return digest.hexdigest()

    def write(self, folder: str | Path) -> Path:
        """Write ``summary.json`` and one Parquet file per table; each file appears whole or not at all, the summary last.

        Parameters
        ----------
        folder : path
            Created if needed. An earlier netsim result in it is replaced; anything else in it is left alone.

        Raises
        ------
        InputError
            The folder cannot be written, or is a file.
        """
        path = probe_folder(folder)
        # An old summary beside new tables would describe the wrong run.
        (path / "summary.json").unlink(missing_ok=True)
        for name in sorted(self.tables):
            marked = self.tables[name].replace_schema_metadata(
                {
                    "netsim.result": FORMAT,
                    "netsim.status": self.status,
                    "netsim.units": json.dumps({c: unit for c, (unit, _) in COLUMNS[name].items()}),
                }
            )
            _atomically(path / f"{name}.parquet", lambda f, table=marked: _write_table(table, f))
        text = json.dumps(
            {
                "format": FORMAT,
                "status": self.status,
                "content_hash": self.content_hash,
                "summary": self.summary,
                "provenance": self.provenance,
                "wall": self.wall,
            },
            indent=1,
        )
        _atomically(path / "summary.json", lambda f: Path(f).write_text(text + "\n", encoding="utf-8"))
        return path


def probe_folder(folder: str | Path) -> Path:
    """Make the folder and prove that it can be written, before a long run and not after it.

    Raises
    ------
    InputError
        It is a file, or cannot be made or written.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, ValueError) as error:
        # ValueError: a NUL byte in the path.
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"output folder {path}", "must be writable", got=reason, remedy="choose another with -o"
        ) from None
    return path


def read_result(folder: str | Path) -> Result:
    """Read a result back.

    Raises
    ------
    InputError
        The folder holds no netsim result, or one of an unknown format.
    """
    path = Path(folder)
    try:
        head = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        tables = {name: _read_table(path / f"{name}.parquet").replace_schema_metadata(None) for name in COLUMNS}
    except (OSError, ValueError) as error:
        raise InputError(
            f"result {path}", "must be a folder that netsim wrote", got=str(error).splitlines()[0]
        ) from None
    if head.get("format") != FORMAT:
        raise InputError(f"result {path}", f"format must be {FORMAT!r}", got=repr(head.get("format")))
    return Result(
        status=head["status"], summary=head["summary"], tables=tables, provenance=head["provenance"], wall=head["wall"]
    )


def _read_table(path: Path) -> Any:
    import pyarrow.parquet as pq

    with path.open("rb") as stream:
        return pq.ParquetFile(stream).read()


def _write_table(table: Any, path: str) -> None:
    import pyarrow.parquet as pq

    # Arrow wants names in UTF-8; Python can open any.
    with open(path, "wb") as stream:
        pq.write_table(table, stream, compression="zstd")


def _atomically(path: Path, write: Any) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(temporary)
        # mkstemp gives 0600; a result is meant to be shared like any file the user makes.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _canonical(array: Any) -> list[bytes]:
    """Bytes of an Arrow array that do not depend on offsets or on what lies under nulls."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    null = np.asarray(array.is_null())
    if pa.types.is_string(array.type):
        return [null.tobytes(), "\x1f".join("" if v is None else v for v in array.to_pylist()).encode()]
    return [null.tobytes(), array.fill_null(0).to_numpy(zero_copy_only=False).tobytes()]
