"""Calls Nova's conductor as nova-api does, and reads Nova's cells. Prints one line of JSON.

A program of the virtual environment with Nova::

    python tests/nova/caller.py NOVA_CONF build IMAGE NAME EXTRA_SPECS...
    python tests/nova/caller.py NOVA_CONF servers
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from nova import monkey_patch

# Before anything else of Nova's.
monkey_patch.patch(backend="threading")

from nova import config, context, exception, objects  # noqa: E402
from nova.conductor import api as conductor_api  # noqa: E402
from nova.network import model as network_model  # noqa: E402
from nova.pci import request as pci_request  # noqa: E402
from nova.virt import hardware  # noqa: E402
from oslo_utils import uuidutils  # noqa: E402

USER, PROJECT = "caller", "project"
MEMORY_MB = 64
#: What a server without volumes, keys and user data does not have.
UNSET = (
    "access_ip_v4",
    "access_ip_v6",
    "availability_zone",
    "default_ephemeral_device",
    "default_swap_device",
    "ephemeral_key_uuid",
    "key_data",
    "key_name",
    "new_flavor",
    "old_flavor",
    "resources",
    "root_device_name",
    "trusted_certs",
    "user_data",
)


def main() -> None:
    file, command, *arguments = sys.argv[1:]
    config.parse_args(["caller", "--config-file", file])
    objects.register_all()
    ctxt = context.RequestContext(USER, PROJECT, is_admin=True, auth_token="admin")
    if command == "build":
        image, name, *specs = arguments
        print(json.dumps(build(ctxt, image, name, dict(each.split("=", 1) for each in specs))))
    else:
        print(json.dumps(list(servers(ctxt))))


def build(ctxt: Any, image: str, name: str, extra_specs: dict[str, str]) -> str:
    """Have a server of one vCPU built, and return its uuid."""
    flavor = flavor_with(ctxt, extra_specs)
    numa = hardware.numa_get_constraints(flavor, objects.ImageMeta.from_dict({}))
    devices = pci_request.get_pci_requests_from_flavor(flavor)
    uuid = uuidutils.generate_uuid()
    groups = objects.SecurityGroupList(objects=[])
    spec = objects.RequestSpec.from_components(
        ctxt, uuid, {}, flavor, numa, devices, {}, None, None, security_groups=groups
    )
    spec.num_instances, spec.is_bfv = 1, False
    server = instance(ctxt, uuid, name, flavor, numa_topology=numa, pci_requests=devices)
    server.image_ref = image
    volumes, tags = objects.BlockDeviceMappingList(objects=[]), objects.TagList(objects=[])
    request = objects.BuildRequest(
        ctxt,
        instance=server,
        instance_uuid=uuid,
        project_id=PROJECT,
        block_device_mappings=volumes,
        tags=tags,
    )
    spec.create()
    request.create()
    objects.InstanceMapping(
        context=ctxt, instance_uuid=uuid, project_id=PROJECT, user_id=USER, cell_mapping=None
    ).create()
    networks = objects.NetworkRequestList(objects=[objects.NetworkRequest(network_id="none")])
    conductor_api.ComputeTaskAPI().schedule_and_build_instances(
        ctxt, [request], [spec], {}, None, [], networks, volumes, tags
    )
    return str(uuid)


def flavor_with(ctxt: Any, extra_specs: dict[str, str]) -> Any:
    """Return the flavor with these extra specs."""
    name = "flavor" + "".join(f",{key}={value}" for key, value in sorted(extra_specs.items()))
    try:
        return objects.Flavor.get_by_name(ctxt, name)
    except exception.FlavorNotFoundByName:
        made = objects.Flavor(
            ctxt,
            name=name,
            flavorid=uuidutils.generate_uuid(),
            vcpus=1,
            memory_mb=MEMORY_MB,
            root_gb=0,
            ephemeral_gb=0,
            swap=0,
            rxtx_factor=1.0,
            vcpu_weight=0,
            disabled=False,
            is_public=True,
            extra_specs=extra_specs,
        )
        made.create()
        return made


def instance(ctxt: Any, uuid: str, name: str, flavor: Any, **more: Any) -> Any:
    """Return the Instance of a server that is to be built."""
    info = network_model.NetworkInfo()
    nothing = dict.fromkeys(UNSET)
    return objects.Instance(
        context=ctxt,
        uuid=uuid,
        user_id=USER,
        project_id=PROJECT,
        vm_state="building",
        task_state="scheduling",
        power_state=0,
        display_name=name,
        hostname=name,
        kernel_id="",
        ramdisk_id="",
        reservation_id="r-1",
        instance_type_id=flavor.id,
        memory_mb=flavor.memory_mb,
        vcpus=flavor.vcpus,
        root_gb=0,
        ephemeral_gb=0,
        launch_index=0,
        locked=False,
        hidden=False,
        metadata={},
        system_metadata={},
        config_drive="",
        auto_disk_config=False,
        progress=0,
        shutdown_terminate=False,
        keypairs=objects.KeyPairList(objects=[]),
        security_groups=objects.SecurityGroupList(objects=[]),
        info_cache=objects.InstanceInfoCache(instance_uuid=uuid, network_info=info),
        flavor=flavor,
        **nothing,
        **more,
    )


def servers(ctxt: Any) -> Iterator[dict[str, Any]]:
    """Yield the servers of all cells."""
    for cell in objects.CellMappingList.get_all(ctxt):
        with context.target_cell(ctxt, cell) as there:
            for each in objects.InstanceList.get_all(there, expected_attrs=["fault"]):
                yield {
                    "uuid": each.uuid,
                    "name": each.display_name,
                    "vm_state": each.vm_state,
                    "task_state": each.task_state,
                    "host": each.host,
                    "fault": each.fault.message if each.fault else None,
                }


if __name__ == "__main__":
    main()
