from __future__ import annotations

import math

import pytest

from netsim.core.errors import InputError
from netsim.traffic import Protocol


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"eager_threshold_bytes": -1},
            "protocol eager_threshold_bytes: must be a whole number of bytes, 0 or more, or inf, got -1",
        ),
        (
            {"eager_threshold_bytes": 1.5},
            "protocol eager_threshold_bytes: must be a whole number of bytes, 0 or more, or inf, got 1.5",
        ),
        (
            {"eager_threshold_bytes": math.nan},
            "protocol eager_threshold_bytes: must be a whole number of bytes, 0 or more, or inf, got nan",
        ),
        ({"send_overhead_s": -1e-6}, "protocol send_overhead_s: must be finite and 0 or more seconds, got -1e-06"),
        ({"recv_overhead_s": math.nan}, "protocol recv_overhead_s: must be finite and 0 or more seconds, got nan"),
        ({"recv_overhead_s": math.inf}, "protocol recv_overhead_s: must be finite and 0 or more seconds, got inf"),
        ({"eager_completion": "sent"}, "protocol eager_completion: must be 'buffered' or 'drain', got 'sent'"),
    ],
)
def test_bad_values(options, message):
    with pytest.raises(InputError) as error:
        Protocol(**options)
    assert str(error.value) == message


def test_no_limit_on_eager_messages():
    assert Protocol(eager_threshold_bytes=math.inf).eager_threshold_bytes == math.inf
