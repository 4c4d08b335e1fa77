"""What the cloud has: accounts, endpoints, flavors, images, a network. All of it is idempotent."""

from __future__ import annotations

from typing import Any

import openstack

from devcloud import configs
from devcloud.places import GUEST

_PINNED = {"hw:cpu_policy": "dedicated"}
#: By name: memory in MB, and extra specs.
FLAVORS: dict[str, tuple[int, dict[str, str]]] = {
    "nano": (64, {}),
    "micro": (96, {}),
    "pinned": (64, _PINNED),
    "pinned-large": (96, _PINNED),
    "numa": (64, {"hw:numa_nodes": "1"}),
    # The hosts have none of these pages.
    "pages": (64, {"hw:mem_page_size": "2MB"}),
}
IMAGES = ("guest", "guest-alt")
NETWORK = "shared"


def connect(password: str) -> Any:
    """Return a connection of openstacksdk, as the administrator."""
    variables = configs.openrc(password)
    return openstack.connection.Connection(
        auth={
            "auth_url": variables["OS_AUTH_URL"],
            "username": variables["OS_USERNAME"],
            "password": password,
            "project_name": variables["OS_PROJECT_NAME"],
            "user_domain_name": variables["OS_USER_DOMAIN_NAME"],
            "project_domain_name": variables["OS_PROJECT_DOMAIN_NAME"],
        },
        region_name=variables["OS_REGION_NAME"],
        identity_api_version="3",
        compute_default_microversion=variables["OS_COMPUTE_API_VERSION"],
        placement_default_microversion=variables["OS_PLACEMENT_API_VERSION"],
    )


def make_accounts(cloud: Any, password: str) -> None:
    """Make the users of the services, and the catalogue."""
    identity = cloud.identity
    project = identity.find_project("service") or identity.create_project(
        name="service", domain_id="default"
    )
    roles = {role.name: role for role in identity.roles()}
    if "service" not in roles:
        roles["service"] = identity.create_role(name="service")
    for name, (kind, url) in configs.ENDPOINTS.items():
        user = identity.find_user(name) or identity.create_user(
            name=name, password=password, domain_id="default"
        )
        for role in ("admin", "service"):
            identity.assign_project_role_to_user(project, user, roles[role])
        if identity.find_service(name) is None:
            service = identity.create_service(name=name, type=kind)
            for interface in ("public", "internal", "admin"):
                identity.create_endpoint(
                    service_id=service.id, interface=interface, url=url, region_id="RegionOne"
                )


def make_contents(cloud: Any) -> None:
    """Make flavors, images and a network."""
    flavors = {flavor.name for flavor in cloud.compute.flavors()}
    for name, (memory, specs) in FLAVORS.items():
        if name not in flavors:
            flavor = cloud.compute.create_flavor(name=name, id=name, ram=memory, disk=1, vcpus=1)
            if specs:
                cloud.compute.create_flavor_extra_specs(flavor, specs)
    images = {image.name for image in cloud.image.images()}
    for name in IMAGES:
        if name not in images:
            cloud.image.create_image(
                name=name,
                filename=str(GUEST),
                disk_format="raw",
                container_format="bare",
                visibility="public",
            )
    if cloud.network.find_network(NETWORK) is None:
        network = cloud.network.create_network(name=NETWORK, shared=True)
        cloud.network.create_subnet(
            name=NETWORK, network_id=network.id, ip_version=4, cidr="10.99.0.0/20"
        )


def lift_quotas(cloud: Any) -> None:
    """Let the administrator have any number of servers."""
    project = cloud.session.get_project_id()
    cloud.compute.update_quota_set(project, instances=-1, cores=-1, ram=-1)
    cloud.network.update_quota(project, ports=-1)
