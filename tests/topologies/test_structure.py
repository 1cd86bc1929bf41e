"""Structure of every family against theory, and that a wrong formula is caught."""

from __future__ import annotations

import dataclasses

from netsim.validation.structure import structure_checks, structures


def test_theory_holds() -> None:
    assert [check.name for check in structure_checks() if not check.ok] == []


def test_wrong_theory_is_caught() -> None:
    rows = structures()[::4]
    wrong = [
        *(dataclasses.replace(row, ports=(row.ports[0], row.ports[1] + 1)) for row in rows),
        *(dataclasses.replace(row, diameter=row.diameter + 1) for row in rows),
        *(dataclasses.replace(row, mean_distance=row.mean_distance * 1.001) for row in rows if row.mean_distance),
        *(dataclasses.replace(row, bisection=row.bisection * 1.5 + 1) for row in rows if row.bisection),
    ]
    assert not any(check.ok for check in structure_checks(wrong))
