"""The build of a server, as nova-api asks for it. Run in the environment with Nova."""

from __future__ import annotations

from typing import Any

from nova import objects
from nova.conductor import api as conductor_api
from nova.network import model as network_model
from nova.pci import request as pci_request
from nova.virt import hardware
from oslo_utils import uuidutils

from tests.nova import flavors

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


def build(
    ctxt: Any, image: str, name: str, host: str, memory_mb: int, extra_specs: dict[str, str]
) -> str:
    """Have a server of one vCPU built on a host, if it fits there, and return its uuid."""
    flavor = flavors.flavor_with(ctxt, memory_mb, extra_specs)
    numa = hardware.numa_get_constraints(flavor, objects.ImageMeta.from_dict({}))
    devices = pci_request.get_pci_requests_from_flavor(flavor)
    uuid = uuidutils.generate_uuid()
    groups = objects.SecurityGroupList(objects=[])
    spec = objects.RequestSpec.from_components(
        ctxt, uuid, {}, flavor, numa, devices, {}, None, None, security_groups=groups
    )
    spec.num_instances, spec.is_bfv = 1, False
    spec.requested_destination = objects.Destination(host=host, node=host)
    server = instance(ctxt, uuid, name, flavor, numa_topology=numa, pci_requests=devices)
    server.image_ref = image
    volumes, tags = objects.BlockDeviceMappingList(objects=[]), objects.TagList(objects=[])
    request = objects.BuildRequest(
        ctxt,
        instance=server,
        instance_uuid=uuid,
        project_id=ctxt.project_id,
        block_device_mappings=volumes,
        tags=tags,
    )
    spec.create()
    request.create()
    objects.InstanceMapping(
        context=ctxt,
        instance_uuid=uuid,
        project_id=ctxt.project_id,
        user_id=ctxt.user_id,
        cell_mapping=None,
    ).create()
    networks = objects.NetworkRequestList(objects=[objects.NetworkRequest(network_id="none")])
    conductor_api.ComputeTaskAPI().schedule_and_build_instances(
        ctxt, [request], [spec], {}, None, [], networks, volumes, tags
    )
    return str(uuid)


def instance(ctxt: Any, uuid: str, name: str, flavor: Any, **more: Any) -> Any:
    """Return the Instance of a server that is to be built."""
    info = network_model.NetworkInfo()
    nothing = dict.fromkeys(UNSET)
    return objects.Instance(
        context=ctxt,
        uuid=uuid,
        user_id=ctxt.user_id,
        project_id=ctxt.project_id,
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
