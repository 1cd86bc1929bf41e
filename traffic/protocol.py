"""How a message travels: eager or rendezvous, and what a call costs the processor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from netsim.core.errors import InputError

__all__ = ["Protocol"]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Model of the message layer (LogGOPS without the network's L and G, which come from the topology).

    Attributes
    ----------
    eager_threshold_bytes : int, or inf
        Messages up to this size are sent eagerly: the data leave at once and the send is complete when they are buffered. Larger
        ones, and synchronous sends of any size, use rendezvous: request to send (a zero-byte transfer), clear to send (a
        zero-byte transfer back, when the request has arrived and the receive is posted), then the data. Default 16 KiB:
        the order of the defaults of MPICH and Open MPI on today's fabrics (4 to 64 KiB).
    send_overhead_s : float
        Processor time to start a send, in seconds; the message leaves at its end. Default 0.5 us: half of the roughly 1 us
        of software in an MPI half round trip on a fast fabric, the other half being the receive overhead.
    recv_overhead_s : float
        Processor time to complete a receive, in seconds, charged by the call that completes it (the blocking receive or the
        wait), in program order. Default 0.5 us.
    handshake : bool
        Let rendezvous cost its two control messages. Off: the data leave when both sides are ready (match time), as in LogGOPSim.
        Collectives never pay them: inside one, both sides are known to take part, and a step starts when both have arrived.
    eager_completion : {"buffered", "drain"}
        When an eager send is complete: at the end of its overhead (the library has copied the data), or when the last byte
        has left the source (the network card reads the user's buffer).
    collective_overhead : bool
        Charge the two overheads for every message inside a collective as well, as if the library were built on its own
        point-to-point layer (MPICH and Open MPI are). Within a step a member works like a program that posts its receives,
        starts its sends and waits for all: the j-th message leaves after j send overheads, then the receives are completed
        one after the other, each when it has arrived and the one before is complete. Members that enter together take as long
        as that program does with eager messages or without a handshake. What differs: a message also waits until its
        receiver has reached the step (and started its own first send), whatever its size; a member leaves a step when its
        sends are delivered, not only buffered; one that sends and receives a single message pays for the receive when both are
        delivered.
        Off: a step costs latency and bytes only, as in the classical closed forms.

    Notes
    -----
    One message, receiver ready, overheads o_s and o_r, path latency L, rate B, size s: received after
    ``o_s + s/B + L + o_r`` (eager) or ``o_s + s/B + 3 L + o_r`` (rendezvous).
    Overheads are serial along one stream (thread) of a rank; two streams of a rank do not delay each other.
    Source of the model: Hoefler, Schneider, Lumsdaine, "LogGOPSim", HPDC 2010; control messages added.

    Examples
    --------
    >>> Protocol(eager_threshold_bytes=8192, send_overhead_s=1e-6).send_overhead_s
    1e-06
    >>> Protocol.ideal().recv_overhead_s
    0.0
    """

    eager_threshold_bytes: float = 16 * 1024
    send_overhead_s: float = 0.5e-6
    recv_overhead_s: float = 0.5e-6
    handshake: bool = True
    eager_completion: Literal["buffered", "drain"] = "buffered"
    collective_overhead: bool = True

    def __post_init__(self) -> None:
        threshold = self.eager_threshold_bytes
        if not threshold >= 0 or (threshold != math.inf and int(threshold) != threshold):
            raise InputError(
                "protocol eager_threshold_bytes", "must be a whole number of bytes, 0 or more, or inf", got=threshold
            )
        for name in ("send_overhead_s", "recv_overhead_s"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise InputError(f"protocol {name}", "must be finite and 0 or more seconds", got=value)
        if self.eager_completion not in ("buffered", "drain"):
            raise InputError(
                "protocol eager_completion", "must be 'buffered' or 'drain'", got=repr(self.eager_completion)
            )

    @classmethod
    def ideal(cls) -> Protocol:
        """Free software: no overheads, no handshake. What is left is the network."""
        return cls(send_overhead_s=0.0, recv_overhead_s=0.0, handshake=False)
