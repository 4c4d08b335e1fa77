"""The chapters of the cloud: built, spread, refused, resized, switched off, evacuated, back,
advised.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.table import Table

from demo.cloud import HOSTS, Cloud
from demo.screen import UnexpectedExit

SERVERS = "server list -c name -c vm_state -c host -c vcpus -c memory_mb"
LISTED = "host list -c host -c state -c vcpus_used -c vcpus_total -c free_ram_mb -c num_instances"
SHOWN = "-c name -c vm_state -c host"
SMALL = "--vcpus 4 --memory 4096 --root-gb 20"
PINNED = (
    "--vcpus 4 --memory 4096 --root-gb 20 --property hw:cpu_policy=dedicated"
    " --property pci_passthrough:alias=vf:1"
)
TOO_LARGE = "--vcpus 8 --memory 24576 --root-gb 20 --property hw:cpu_policy=dedicated"

#: So large that a host has nothing else.
LARGE = "--vcpus 4 --memory 30720 --root-gb 20"


def play(cloud: Cloud) -> None:
    """Play all chapters in order."""
    for chapter in (hosts, built, devices, refusal, resized):
        chapter(cloud)
    lost = host_of(cloud, "web-1")
    for after in (host_down, evacuated, host_back):
        after(cloud, lost)
    advised(cloud)
    placement(cloud)


def hosts(cloud: Cloud) -> None:
    # A host without inventory in Placement is not selected: the servers would be elsewhere.
    wait_until(lambda: in_placement(cloud) == len(HOSTS), "Placement does not have all hosts")
    cloud.chapter("Three agents have reported their hosts to the scheduler")
    cloud.run(LISTED)


def built(cloud: Cloud) -> None:
    cloud.chapter("Servers are built, and spread over the hosts")
    for number in (1, 2, 3):
        cloud.run(f"server build web-{number} {SMALL} {SHOWN}")
    cloud.run(SERVERS)


def devices(cloud: Cloud) -> None:
    cloud.chapter("A server with dedicated CPUs and a virtual function")
    cloud.run(f"server build nfv-1 {PINNED} {SHOWN}")
    host = host_of(cloud, "nfv-1")
    cloud.say(f"Its claim, as the agent of {host} has it:")
    cloud.run_at(host, "pci list --status allocated -c address -c dev_type -c status -c name")


def refusal(cloud: Cloud) -> None:
    cloud.chapter("A refusal is explained: each host, each filter, and the numbers")
    cloud.run(f"server build db-1 {TOO_LARGE}", expect=3)
    cloud.run(f"schedule explain {TOO_LARGE}")
    cloud.run("server delete db-1")


def resized(cloud: Cloud) -> None:
    before = host_of(cloud, "web-1")
    cloud.chapter(f"web-1 is resized: it leaves {before} for another host")
    cloud.run(f"server resize web-1 --memory 8192 {SHOWN} -c source_host")
    cloud.say(f"Both hosts keep its resources until the resize is confirmed. {before}:")
    cloud.run_at(before, "claim list -c display_name -c state -c vcpus -c memory_mb")
    cloud.run(f"server confirm web-1 {SHOWN}")
    cloud.run(SERVERS)


def host_down(cloud: Cloud, host: str) -> None:
    cloud.chapter(f"{host} is switched off, with its agent and its guests")
    cloud.switch_off(host)
    wait_until(lambda: not up(cloud, host), "the scheduler does not notice it")
    cloud.run(LISTED)


def evacuated(cloud: Cloud, host: str) -> None:
    cloud.chapter("Its servers are evacuated")
    names = servers_on(cloud, host)
    for name in names:
        # Its agent is asked first, and does not answer in 5 seconds.
        cloud.run(f"--timeout 5 server evacuate {name} {SHOWN}")
    cloud.run(SERVERS)
    server = cloud.ask(f"server show {names[-1]}")
    cloud.say(f"Why {server['host']}, and not the other one? As it was when {names[-1]} came:")
    cloud.run(f"schedule decision {server['uuid']} -c purpose -c choices -c refusals")


def host_back(cloud: Cloud, host: str) -> None:
    cloud.chapter(f"{host} comes back, and what the evacuated servers left there is removed")
    cloud.switch_on(host)
    cloud.run_at(host, "claim list -c display_name -c state -c suspect")
    cloud.run("server resume")
    cloud.run_at(host, "claim list")
    # Until the agent's next audit it counts the guests that were left there.
    wait_until(lambda: up(cloud, host, empty=True), "the scheduler does not notice it")
    cloud.run(LISTED)


def advised(cloud: Cloud) -> None:
    cloud.chapter("Two servers of almost a whole host: what has to move, and where to")
    cloud.run(f"schedule capacity {LARGE} -c room -c hosts -c scarce")
    asked = f"schedule advise {LARGE} --count 2"
    cloud.run(f"{asked} -c answer -c room -c room_after -c moves -c commands")
    for command in cloud.ask(asked)["commands"]:
        cloud.run(f"{command.removeprefix('rtagent ')} {SHOWN}")
    for number in (1, 2):
        cloud.run(f"server build db-{number} {LARGE} {SHOWN}")


def placement(cloud: Cloud) -> None:
    cloud.chapter("Placement has one allocation for each server, on the host where it runs")
    client = cloud.placement.client()
    table = Table("server", "host", "allocation")
    providers = client.get("/resource_providers").json()["resource_providers"]
    names = {each["uuid"]: each["name"] for each in providers}
    for server in cloud.ask("server list"):
        found = client.get(f"/allocations/{server['uuid']}").json()["allocations"]
        for uuid, allocation in found.items():
            resources = ", ".join(f"{k} {n}" for k, n in sorted(allocation["resources"].items()))
            table.add_row(server["name"], names[uuid], resources)
    cloud.console.print(table)


def in_placement(cloud: Cloud) -> int:
    """Return the number of hosts that have inventory in Placement."""
    asked = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:1,DISK_GB:1"
    return len(cloud.placement.client().get(asked).json()["provider_summaries"])


def host_of(cloud: Cloud, server: str) -> str:
    """Return the host of a server."""
    return str(cloud.ask(f"server show {server}")["host"])


def servers_on(cloud: Cloud, host: str) -> list[str]:
    """Return the names of the servers on a host."""
    return [each["name"] for each in cloud.ask("server list") if each["host"] == host]


def up(cloud: Cloud, host: str, *, empty: bool = False) -> bool:
    """Return whether the scheduler may select a host. :param empty: and counts no guest there."""
    return any(
        each["host"] == host and each["state"] == "up" and not (empty and each["vcpus_used"])
        for each in cloud.ask(LISTED)
    )


def wait_until(holds: Callable[[], bool], complaint: str) -> None:
    """Wait for a change that takes some seconds. :raises UnexpectedExit: it does not come."""
    for _ in range(60):
        if holds():
            return
        time.sleep(3.0)
    raise UnexpectedExit(complaint)
