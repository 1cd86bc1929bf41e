"""The command line: parse, call one API function, print."""

from __future__ import annotations

import signal
import threading

# Ctrl-C while modules are still being loaded ends the process as it ends any other program: without a traceback.
_quiet = (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
)
if _quiet:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
try:
    from netsim.cli.main import main
finally:
    if _quiet:
        signal.signal(signal.SIGINT, signal.default_int_handler)

__all__ = ["main"]
