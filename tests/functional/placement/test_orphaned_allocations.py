"""Allocations in Placement: audits of a daemon, calls that delete some, commands for orphans."""

from collections.abc import Iterator
from typing import Any

import pytest
from oslo_context.context import RequestContext

from rtagent.errors import IllegalTransition, PlacementUnavailable
from rtagent.rpc.client import AgentAPI
from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.functional.cli.shell import Outcome, run
from tests.servers import Placement, RabbitMQ
from tests.servers.daemon import Daemon, wait_until
from tests.support.allocating_agents import consumer_content
from tests.support.hosts import uid

CONTEXT = RequestContext(user_id="tester", roles=["operator"])
AMOUNTS = {"VCPU": 1, "MEMORY_MB": 16}
PATIENCE = 180.0
DOMAIN = uid()


class Site:
    """A daemon, its broker and Placement."""

    def __init__(self, daemon: Daemon, rpc: AgentAPI, placement: Placement) -> None:
        self.daemon, self.rpc, self.placement = daemon, rpc, placement
        self.admin = placement.client("1.38")

    @property
    def uuid(self) -> str:
        return (self.daemon.directory / "compute_id").read_text().strip()

    def claim(self) -> str:
        """Claim resources for an instance and activate the claim; return the instance's uuid."""
        flavor = {"vcpus": 1, "memory_mb": 16, "root_gb": 0}
        claim = self.rpc.instance_claim(CONTEXT, {"uuid": uid(), "flavor": flavor})
        self.rpc.activate_claim(CONTEXT, claim["uuid"])
        return str(claim["owner_id"])

    def released(self) -> str:
        """Claim resources and release them; return the uuid of the instance."""
        instance = self.claim()
        self.rpc.update_usage(CONTEXT, {"uuid": instance, "vm_state": "deleted"})
        return instance

    def allocate(self, consumer: str, **providers: dict[str, int]) -> None:
        found = self.admin.get(f"/allocations/{consumer}").json()
        body = {**consumer_content(providers, found), "project_id": "p1"}
        answer = self.admin.put(f"/allocations/{consumer}", json=body)
        assert answer.status_code == 204, answer.text

    def parts(self, consumer: str) -> dict[str, dict[str, int]]:
        return self.placement.allocations(consumer)

    def reserved(self, name: str) -> int:
        return int(self.placement.inventories(self.uuid)[name]["reserved"])

    def other_host(self) -> str:
        uuid = uid()
        self.admin.post("/resource_providers", json={"name": f"p{uuid}", "uuid": uuid})
        body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}
        self.admin.put(f"/resource_providers/{uuid}/inventories", json=body)
        return uuid

    @property
    def audited(self) -> dict[str, Any]:
        """The settled findings of the last audit, by consumer."""
        found = self.daemon.read("allocations")["allocations"]
        return {each["consumer_uuid"]: each for each in found}

    @property
    def health(self) -> tuple[str, str]:
        checks = self.daemon.read("health")["checks"].get("allocations", ())
        return next(((each["status"], each.get("output", "")) for each in checks), ("", ""))

    def command(self, *arguments: str) -> Outcome:
        config = str(self.daemon.config_file)
        return run("--config-file", config, "placement", "orphans", *arguments)

    def orphans(self) -> dict[str, dict[str, Any]]:
        found = self.command("-f", "json")
        assert found.code == 0, found.err
        return {row["consumer"]: row for row in found.json} if found.out else {}


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ, transport: Any
) -> Iterator[Site]:
    rabbitmq_server.start()
    directory = tmp_path_factory.mktemp("allocations")
    simulate(directory / "host.xml", Machine())
    with edit(directory / "host.xml") as host:
        host.add_domain(domain_xml(DOMAIN, vcpus=1, memory_mb=16))
    with Placement() as placement:
        daemon = Daemon(directory, rabbitmq_server.transport_url)
        daemon.configure(
            {
                "DEFAULT": {"host": f"agent-{uid()}"},
                "claims": {"claim_expiry_time": 10},
                "placement": {**placement.login, "allocation_audit_interval": 1, "timeout": 8},
            }
        )
        site = Site(daemon, AgentAPI(transport, daemon.host, timeout=120, attempts=1), placement)
        daemon.start().wait_ready()
        wait_until(lambda: site.daemon.read("allocations")["at"] is not None, PATIENCE)
        yield site
        daemon.close()


def test_each_kind_of_allocation(site):
    fits, differs, gone, unknown = site.claim(), site.claim(), site.released(), uid()
    other = site.other_host()
    site.allocate(fits, **{site.uuid: AMOUNTS})
    site.allocate(differs, **{site.uuid: {**AMOUNTS, "VCPU": 2}})
    site.allocate(gone, **{site.uuid: AMOUNTS, other: {"VCPU": 1}})
    site.allocate(unknown, **{site.uuid: AMOUNTS, other: {"VCPU": 1}})
    wait_until(lambda: site.reserved("VCPU") == 1, PATIENCE)  # for the domain
    site.allocate(DOMAIN, **{site.uuid: AMOUNTS})

    wait_until(lambda: {differs, unknown, DOMAIN} <= set(site.audited), PATIENCE)

    wait_until(lambda: site.parts(gone) == {other: {"VCPU": 1}}, PATIENCE)
    wait_until(lambda: site.reserved("VCPU") == 0, PATIENCE)
    found = site.audited
    assert {found[each]["verdict"] for each in (unknown, DOMAIN)} == {"unknown"}
    assert found[differs]["verdict"] == "different"
    assert fits not in found
    status, output = site.health
    assert status == "warn"
    assert "consumers with allocations on this node and no claim: 2" in output
    assert "consumers with other allocations than their claims: 1" in output
    # Nothing else is touched.
    assert site.parts(fits) == {site.uuid: AMOUNTS}
    assert site.parts(differs) == {site.uuid: {**AMOUNTS, "VCPU": 2}}
    assert site.parts(unknown) == {site.uuid: AMOUNTS, other: {"VCPU": 1}}

    # The command, with and without the agent.
    assert set(site.orphans()) == {unknown, DOMAIN}
    row = site.orphans()[unknown]
    assert (row["type"], row["project"], row["provider"]) == ("INSTANCE", "p1", "simulated-host")
    assert (row["resources"], row["since"][:2]) == (AMOUNTS, "20")
    for consumer, user in ((fits, "claim"), (DOMAIN, "domain")):
        refused = site.command("delete", consumer)
        assert (refused.code, user in refused.err) == (6, True)
        assert site.parts(consumer)
    site.daemon.terminate()
    assert site.orphans()[unknown]["since"] is None
    tested = site.command("delete", unknown, "--dry-run", "-f", "json").json
    assert tested["would_be_deleted"] == {"simulated-host": AMOUNTS}
    assert (tested["deleted"], tested["kept_elsewhere"]) == ({}, {other: {"VCPU": 1}})
    deleted = site.command("delete", unknown, "-f", "json").json
    assert deleted["deleted"] == {"simulated-host": AMOUNTS}
    assert deleted["kept_elsewhere"] == {other: {"VCPU": 1}}
    assert site.parts(unknown) == {other: {"VCPU": 1}}
    assert site.command("delete", unknown).code == 5
    site.daemon.start().wait_ready()
    site.allocate(differs, **{site.uuid: AMOUNTS})
    with edit(site.daemon.host_file) as host:
        host.remove_domain(DOMAIN)
    site.rpc.update_available_resource(CONTEXT)
    assert site.command("delete", DOMAIN).code == 0
    wait_until(lambda: site.health[0] == "pass", PATIENCE)


def test_the_allocation_of_an_instance_that_has_left_is_deleted_by_a_call(site):
    other, instance = site.other_host(), site.claim()
    site.allocate(instance, **{site.uuid: AMOUNTS, other: {"VCPU": 1}})
    calls = [
        getattr(site.rpc, f"delete_allocation_for_{how}_instance")
        for how in ("evacuated", "migrated", "shelve_offloaded")
    ]
    for call in calls:
        with pytest.raises(IllegalTransition, match="is active"):
            call(CONTEXT, instance)
    site.rpc.update_usage(CONTEXT, {"uuid": instance, "vm_state": "shelved_offloaded"})
    with site.placement.outage():
        with pytest.raises(PlacementUnavailable):
            site.rpc.delete_allocation_for_evacuated_instance(CONTEXT, instance)
        assert site.claim()  # nothing else waits
    for call in calls:
        call(CONTEXT, instance)
        assert site.parts(instance) == {other: {"VCPU": 1}}


def test_an_agent_that_writes_allocations_corrects_them(site):
    site.daemon.configure({"placement": {"manage_allocations": "yes"}})
    site.daemon.terminate()
    site.daemon.start().wait_ready()
    instance = site.claim()
    wait_until(lambda: site.parts(instance) == {site.uuid: AMOUNTS}, PATIENCE)
    other = site.other_host()
    site.allocate(instance, **{site.uuid: {**AMOUNTS, "VCPU": 2}, other: {"VCPU": 1}})
    wait_until(lambda: site.parts(instance).get(site.uuid) == AMOUNTS, PATIENCE)
    assert site.parts(instance)[other] == {"VCPU": 1}
