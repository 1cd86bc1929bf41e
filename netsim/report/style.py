"""What all pictures share: fonts, colours, and files whose bytes depend on nothing but the data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.core.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "FORMATS", "INK", "PALE", "checked_file", "style", "write"]

FORMATS = (".svg", ".png", ".pdf")
# Told apart in print and by most who do not see all colours (M. Okabe, K. Ito, "Color Universal Design", 2008).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5195", "#e0a100", "#56b4e9")
INK, PALE = "#1b2a3d", "#5b6877"


def checked_file(path: str | Path) -> Path:
    """The file of a picture, by its suffix."""
    file = Path(path)
    if file.suffix.lower() not in FORMATS:
        raise InputError(
            str(file), "unknown kind of picture", got=repr(file.suffix), remedy="use " + ", ".join(FORMATS)
        )
    return file


@contextmanager
def style() -> Iterator[None]:
    """Draw inside it; raises where matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise InputError(
            "drawing", "needs matplotlib, which is not installed", remedy="pip install 'netsim-eo[report]'"
        ) from None
    with mpl.rc_context(
        {"font.family": "sans-serif", "font.size": 10, "svg.hashsalt": "netsim", "svg.fonttype": "none"}
    ):
        yield


def write(figure: Figure, file: Path) -> None:
    """Save without date and with fixed identifiers."""
    fixed: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(file.suffix.lower(), {})
    try:
        figure.savefig(file, metadata=fixed, dpi=200)
    except OSError as error:
        raise InputError(str(file), "cannot be written", got=error.strerror) from None
