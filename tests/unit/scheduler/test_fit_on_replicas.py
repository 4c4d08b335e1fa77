"""The fit of a request on a host that an agent has reported."""

from rtagent.model.claim import Claim
from rtagent.scheduler.claim_template import claim_template
from rtagent.scheduler.filter import Rejection
from rtagent.scheduler.fits import judge
from rtagent.scheduler.replica import replica_of
from rtagent.scheduler.report import description_of, digest_of, report_of
from tests.support.device_states import built, device_host
from tests.support.hosts import NOON
from tests.support.scheduling import spec


def verdict(state, devices):
    description = description_of(state)
    replica = replica_of(report_of(state, digest_of(description)), description)
    asked = spec(root_gb=0, extra_specs={"pci_passthrough:alias": f"gpu:{devices}"})
    template = claim_template(asked, ())
    return judge(replica, template, template.build, NOON)


def test_devices_that_other_owners_have_do_not_fit():
    state, _ = built(device_host(), "gpu:1")
    assert isinstance(verdict(state, 1), Claim)
    state, _ = built(state, "gpu:1")
    assert isinstance(verdict(state, 1), Rejection)
