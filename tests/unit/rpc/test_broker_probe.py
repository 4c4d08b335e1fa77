"""The wait for a transport's first connection is bounded."""

import pytest

from rtagent.rpc.calls import BrokerProbe
from tests.support.interpreter import no_threads


def test_the_next_call_probes_when_a_thread_can_be_started():
    probe, calls = BrokerProbe(), []
    with no_threads(), pytest.raises(RuntimeError):
        probe.ensure_reached(lambda: calls.append("lost"), 0.1)
    probe.ensure_reached(lambda: calls.append("made"), 60)
    assert calls == ["made"]
