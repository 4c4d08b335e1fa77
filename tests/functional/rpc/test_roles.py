"""Roles over a message bus: who may read, and who may change."""

import pytest
from oslo_context.context import RequestContext

from rtagent.rpc.errors import NotAuthorized
from tests.functional.rpc.conftest import Station
from tests.support.hosts import uid


def test_a_reader_cannot_release_the_claim_of_another(station: Station):
    api = station.client(attempts=1)
    conductor = RequestContext(user_id="conductor", roles=["conductor"], overwrite=False)
    reader = RequestContext(user_id="mallory", roles=["reader"], overwrite=False)
    wanted = {"uuid": uid(), "flavor": {"vcpus": 1, "memory_mb": 64}}
    claim = api.instance_claim(conductor, wanted)["uuid"]
    api.activate_claim(conductor, claim)
    assert [each["uuid"] for each in api.get_claims_for_host(reader)["claims"]] == [claim]
    for method in ("release_claim", "abort_instance_claim", "renew_claim"):
        with pytest.raises(NotAuthorized, match=f"{method} needs the role conductor") as refused:
            getattr(api, method)(reader, claim)
        assert refused.value.kwargs["caller"] == "mallory"
    with pytest.raises(NotAuthorized, match="drain_node needs the role operator"):
        api.drain_node(conductor, "new disks")
    assert api.get_claim(conductor, claim)["claim"]["state"] == "active"
    api.release_claim(conductor, claim)
    assert api.get_claims_for_host(reader)["claims"] == []
