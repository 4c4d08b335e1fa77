"""The claim that a request needs, without its owner."""

from __future__ import annotations

from rtagent.model.claim import BUILD
from rtagent.model.server import ImageRequest
from rtagent.scheduler.claim_template import NO_OWNER, claim_template
from tests.support.hosts import uid
from tests.support.scheduling import spec


def test_the_request_of_an_instances_claim():
    image = ImageRequest(id="i", min_ram=1, properties={"hw_cpu_policy": "shared"})
    template = claim_template(
        spec(project_id="p", user_id="u", os_type="linux", is_bfv=True, image=image)
    )
    owner = uid()
    instance = template.build_request(owner).instance
    assert (instance.uuid, instance.project_id, instance.user_id) == (owner, "p", "u")
    assert (instance.os_type, instance.is_volume_backed) == ("linux", True)
    assert instance.image.properties == {"hw_cpu_policy": "shared"}
    assert template.build.instance.uuid == NO_OWNER


def test_kinds_of_claims():
    purposes = ("build", "unshelve", "resize", "migration", "live-migration", "evacuation")
    kinds = [claim_template(spec(purpose=purpose)).kind for purpose in purposes]
    assert kinds == [BUILD, BUILD, *purposes[2:]]


def test_only_a_live_migration_keeps_page_sizes():
    pages = {"hw:mem_page_size": "any"}
    for purpose, sizes in (("live-migration", (2048,)), ("resize", ())):
        template = claim_template(spec(purpose=purpose, extra_specs=pages), (2048,))
        assert template.page_sizes == sizes
        assert template.move_request(template.build).source.page_sizes == sizes
