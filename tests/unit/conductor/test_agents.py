"""Replies of schedulers and agents, as a conductor reads them."""

from __future__ import annotations

import pytest

from rtagent.conductor.errors import InvalidReply, OperationFailed
from rtagent.conductor.opening import selections_of
from tests.support.cloud import Cloud, spec
from tests.support.hosts import uid

SELECTED = {"host": "h1", "nodename": "n1", "provider_uuid": uid(1), "operation_id": uid(2)}
GOOD = {"instance_uuid": uid(3), "selected": SELECTED}


def test_the_selections_of_a_reply():
    [found] = selections_of({"selections": [GOOD]}, [uid(3)])
    assert (found.selected.host, found.alternates) == ("h1", ())


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (None, "Expected `object`, got `null`"),
        ({}, "missing required field `selections`"),
        ({"selections": [{**GOOD, "selected": {}}]}, r"at `\$.selections\[0\].selected`"),
        ({"selections": []}, "it selects for no instance"),
        ({"selections": [GOOD, GOOD]}, f"it selects for {uid(3)}, {uid(3)}"),
    ],
)
def test_a_reply_of_another_form_is_an_error_of_its_own(reply, why):
    with pytest.raises(InvalidReply, match=f"the scheduler answered select_destinations.*{why}"):
        selections_of(reply, [uid(3)])


def test_a_claim_that_cannot_be_read_undoes_the_build():
    class Newer(Cloud):
        def call(self, host, node_uuid, method, **arguments):
            reply = super().call(host, node_uuid, method, **arguments)
            return {"uuid": reply["uuid"]} if method == "activate_claim" else reply

    cloud = Newer()
    with pytest.raises(OperationFailed, match="the agent of h0 answered"):
        cloud.conductor().build(spec())
    cloud.check()
