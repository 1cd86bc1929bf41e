"""Transfers that move to a better route while they are under way."""

from __future__ import annotations

from netsim.core.errors import InputError
from netsim.engine.control import Actions, Control, View

__all__ = ["Rerouting"]


class Rerouting:
    """Every period, transfers under way move to those of their routes that promise more.

    Parameters
    ----------
    period_s : float
        Time between two looks.
    hysteresis : float
        A move must promise this part more than the present rate to expect. Without it (0) transfers chase each other: their
        moves are decided one after the other, but all candidates look alike when the network is evenly full.
    most : int, optional
        Moves at each look at most.

    Attributes
    ----------
    control : Control
        For `Simulation.run`; the routes must have `Choices`.
    moves : int
        Moves so far.

    Examples
    --------
    Two transfers of 100 bytes choose link 0 in turn, since link 1 is slow; when that recovers, one of them moves.

    >>> import numpy as np
    >>> from netsim.engine import CapacityChanges, Choices, Routes, Simulation
    >>> from netsim.traffic.taskgraph import GraphBuilder
    >>> build = GraphBuilder(n_ranks=2)
    >>> _ = [build.transfer(source=0, destination=1, size_bytes=100) for _ in range(2)]
    >>> choices = Choices(ptr=np.array([0, 2, 2]), row=np.array([0, 1]), rule="rate")
    >>> routes = Routes(of_task=np.array([0, 0]), ptr=np.array([0, 1, 2]), link=np.array([0, 1]), latency_s=np.zeros(2), choices=choices)
    >>> recovers = CapacityChanges(time_s=np.array([4.0]), link=np.array([1]), capacity_bytes_per_s=np.array([10.0]))
    >>> moving = Rerouting(period_s=5.0)
    >>> simulation = Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[10, 1], changes=recovers)
    >>> simulation.run(controller=moving.control).end_s.tolist(), moving.moves
    ([12.5, 12.5], 1)
    """

    def __init__(self, *, period_s: float, hysteresis: float = 0.1, most: int | None = None) -> None:
        if not 0 <= hysteresis < float("inf"):
            raise InputError("rerouting", "hysteresis must be 0 or more", got=hysteresis)
        self.hysteresis = hysteresis
        self.most = most
        self.moves = 0
        self.control = Control(act=self._act, period_s=period_s, idle_epochs=0)

    def _act(self, view: View) -> Actions | None:
        task, row = view.better_routes(hysteresis=self.hysteresis, most=self.most)
        if not task.size:
            return None
        self.moves += int(task.size)
        return Actions(reroute_task=task, rows=row)
