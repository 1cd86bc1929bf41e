"""Record real MPI runs: ``capture(["mpiexec", "-n", "8", "./program"], output="run.parquet")``.

``calls`` is the table of MPI functions; ``header`` and ``generate`` make the recorder from the installed MPI's own header,
``build`` compiles and keeps it, ``detect`` finds the MPI of a command, ``launch`` runs it, ``records``, ``groups``, ``rows`` and
``convert`` turn what the ranks left behind into a trace. ``recorder/`` is the C code that runs inside the ranks.
"""

from __future__ import annotations

from netsim.traces.capture.launch import CaptureReport, assemble, capture

__all__ = ["CaptureReport", "assemble", "capture"]
