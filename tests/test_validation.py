"""The validation command: closed forms hold, a wrong model is caught, and the page can be written again."""

from __future__ import annotations

import pytest

from netsim import validation
from netsim.core.errors import InputError
from netsim.traffic import Protocol


def test_closed_forms_of_all_algorithms_hold():
    checks = [*validation.message_checks(), *validation.collective_checks()]
    assert len(checks) > 80
    assert [check.name for check in checks if not check.ok] == []


def test_a_wrong_protocol_would_be_caught(monkeypatch):
    # The receive overhead is charged twice: every message check must fail.
    honest = Protocol.__init__

    def wrong(self, **values):
        honest(self, **{**values, "recv_overhead_s": 2 * values.get("recv_overhead_s", 0.0)})

    monkeypatch.setattr(Protocol, "__init__", wrong)
    assert not any(check.ok for check in validation.message_checks())


def test_shipped_trace_on_a_star(shipped):
    (check,) = validation.trace_checks([shipped / "cg-8.parquet"], fabrics=["star"], gaps="none")
    assert check.ok
    assert check.found_s >= check.expected_s > 0


def test_the_page_is_rewritten_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{validation.BEGIN}\nold\n{validation.END}\nafter\n")
    report = validation.Report(tables=(("Title", ("a", "b"), ()),))
    validation.write_into(page, report)
    text = page.read_text()
    assert text.startswith(f"before\n{validation.BEGIN}\n")
    assert text.endswith(f"{validation.END}\nafter\n")
    assert "old" not in text
    assert "| a | b |" in text
    page.write_text("<!-- cost: begin -->\n<!-- cost: end -->\n")
    validation.write_into(page, report, mark="cost", notes=("Measured so.",))
    assert page.read_text().startswith("<!-- cost: begin -->\n\n## Title\n")
    assert page.read_text().endswith("|---|---|\n\nMeasured so.\n\n<!-- cost: end -->\n")
    page.write_text("no marks")
    with pytest.raises(InputError, match="must hold the lines"):
        validation.write_into(page, report)


def test_the_shipped_page_names_every_trace(shipped):
    page = (shipped.parents[1] / "docs" / "validation.md").read_text()
    for path in shipped.glob("*.parquet"):
        assert page.count(f"| {path.name} | ") == 6
