"""The command line: parse, call one API function, print."""

from __future__ import annotations

from netsim.cli.main import main

__all__ = ["main"]
