"""The configuration files, as in a manual installation of OpenStack. All else is a default."""

from __future__ import annotations

from devcloud.places import ADDRESS, COMPUTES, CONTROLLER
from tests.servers.libvirtd import QEMU_CONF

C = ADDRESS[CONTROLLER]
API = f"http://{C}"
#: In all /etc of a host: the name of a host in the cloud is the name of its address.
HOSTS = "127.0.0.1 localhost\n" + "".join(f"{at} {name}\n" for name, at in ADDRESS.items())
#: The service, and at which port and path of the controller it is. Of the catalogue.
ENDPOINTS = {
    "glance": ("image", f"{API}:9292"),
    "placement": ("placement", f"{API}:8778"),
    "neutron": ("network", f"{API}:9696"),
    "nova": ("compute", f"{API}:8774/v2.1"),
    "cinder": ("block-storage", f"{API}:8776/v3"),
}
#: The host CPUs that each compute host gives to single servers, and those that servers share.
DEDICATED, SHARED = frozenset({1}), frozenset({0})
FILTERS = (
    "ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,"
    "ServerGroupAffinityFilter,SameHostFilter,DifferentHostFilter,NUMATopologyFilter,"
    "PciPassthroughFilter"
)


def database(name: str) -> str:
    """Return the URL of a database, which only the controller reaches."""
    return f"mysql+pymysql://root@127.0.0.1/{name}"


def controller(password: str) -> dict[str, str]:
    """Return the files of the controller, by path."""
    return {
        "/etc/hosts": HOSTS,
        "/etc/keystone/keystone.conf": _keystone(),
        "/etc/glance/glance-api.conf": _glance(password),
        "/etc/placement/placement.conf": _placement(password),
        "/etc/neutron/neutron.conf": _neutron(password),
        "/etc/cinder/cinder.conf": _cinder(password),
        "/etc/cinder/shares": f"{C}:/volumes\n",
        "/etc/nova/nova.conf": _nova(CONTROLLER, password)
        + f"[api_database]\nconnection = {database('nova_api')}\n"
        + f"[database]\nconnection = {database('nova_cell1')}\n",
        "/etc/rabbitmq/rabbitmq.conf": _RABBITMQ.format(password=password),
        "/etc/rabbitmq/enabled_plugins": "[].\n",
    }


def compute(name: str, password: str, uuid: str, driver: str) -> dict[str, str]:
    """Return the files of a compute host, by path.

    :param uuid: of the host, for libvirt. :param driver: of Nova.
    """
    address = ADDRESS[name]
    return {
        "/etc/hosts": HOSTS,
        "/etc/nova/nova.conf": _nova(name, password)
        + _COMPUTE.format(driver=driver, shared=_cpus(SHARED), dedicated=_cpus(DEDICATED)),
        "/etc/neutron/neutron.conf": _neutron(password),
        "/etc/neutron/openvswitch_agent.conf": _OVS_AGENT.format(host=name),
        "/etc/libvirt/libvirtd.conf": _LIBVIRTD.format(address=address, uuid=uuid),
        "/etc/libvirt/qemu.conf": QEMU_CONF + f'migration_host = "{address}"\n',
        "/etc/ssh/sshd_config": _SSHD.format(address=address),
        "/etc/ssh/ssh_config": _SSH,
        "/etc/rtagent/rtagent.conf": "[DEFAULT]\nstate_path = /var/lib/nova/rtagent\n",
    }


def openrc(password: str) -> dict[str, str]:
    """Return the variables with which clients are the administrator."""
    return {
        "OS_AUTH_URL": f"{API}:5000/v3",
        "OS_USERNAME": "admin",
        "OS_PASSWORD": password,
        "OS_PROJECT_NAME": "admin",
        "OS_USER_DOMAIN_NAME": "Default",
        "OS_PROJECT_DOMAIN_NAME": "Default",
        "OS_REGION_NAME": "RegionOne",
        "OS_IDENTITY_API_VERSION": "3",
        # "latest" makes the client forget its commands for servers.
        "OS_COMPUTE_API_VERSION": "2.100",
        "OS_PLACEMENT_API_VERSION": "1.39",
    }


def _cpus(cpus: frozenset[int]) -> str:
    return ",".join(map(str, sorted(cpus)))


def _account(name: str, password: str) -> str:
    """Return the options with which a service authenticates itself."""
    return f"""auth_type = password
auth_url = {API}:5000/v3
username = {name}
password = {password}
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = RegionOne
"""


def _tokens(name: str, password: str) -> str:
    """Return the section with which a service checks the tokens of its callers."""
    return f"""[keystone_authtoken]
www_authenticate_uri = {API}:5000
memcached_servers = 127.0.0.1:11211
service_token_roles = service
service_token_roles_required = true
{_account(name, password)}"""


def _keystone() -> str:
    return f"""[database]
connection = {database("keystone")}
[identity]
password_hash_rounds = 4
[token]
provider = fernet
[fernet_tokens]
key_repository = /var/lib/keystone/fernet-keys
[fernet_receipts]
key_repository = /var/lib/keystone/fernet-keys
[credential]
key_repository = /var/lib/keystone/credential-keys
[cache]
enabled = true
backend = dogpile.cache.pymemcache
memcache_servers = 127.0.0.1:11211
"""


def _glance(password: str) -> str:
    return f"""[DEFAULT]
enabled_backends = file:file
[glance_store]
default_backend = file
[file]
filesystem_store_datadir = /var/lib/glance/images
[os_glance_staging_store]
filesystem_store_datadir = /var/lib/glance/staging
[os_glance_tasks_store]
filesystem_store_datadir = /var/lib/glance/tasks
[database]
connection = {database("glance")}
[paste_deploy]
flavor = keystone
config_file = /etc/glance/glance-api-paste.ini
[oslo_concurrency]
lock_path = /var/lib/glance/locks
{_tokens("glance", password)}"""


def _placement(password: str) -> str:
    return f"""[placement_database]
connection = {database("placement")}
[api]
auth_strategy = keystone
{_tokens("placement", password)}"""


def _rabbit(password: str) -> str:
    return f"rabbit://cloud:{password}@{C}:5672/"


def _neutron(password: str) -> str:
    # A port needs no DHCP agent to become active.
    return f"""[DEFAULT]
core_plugin = ml2
service_plugins =
transport_url = {_rabbit(password)}
state_path = /var/lib/neutron
api_paste_config = /etc/neutron/api-paste.ini
rpc_workers = 1
rpc_state_report_workers = 0
enable_traditional_dhcp = false
agent_down_time = 300
[ml2]
type_drivers = local,flat
tenant_network_types = local
mechanism_drivers = openvswitch
extension_drivers = port_security
[database]
connection = {database("neutron")}
[oslo_concurrency]
lock_path = /var/lib/neutron/locks
[nova]
{_account("nova", password)}{_tokens("neutron", password)}"""


def _cinder(password: str) -> str:
    return f"""[DEFAULT]
my_ip = {C}
transport_url = {_rabbit(password)}
state_path = /var/lib/cinder
api_paste_config = /etc/cinder/api-paste.ini
resource_query_filters_file = /etc/cinder/resource_filters.json
auth_strategy = keystone
enabled_backends = nfs
glance_api_servers = {API}:9292
osapi_volume_workers = 1
[nfs]
volume_driver = cinder.volume.drivers.nfs.NfsDriver
volume_backend_name = nfs
nfs_shares_config = /etc/cinder/shares
nas_secure_file_operations = false
nas_secure_file_permissions = false
[database]
connection = {database("cinder")}
[oslo_concurrency]
lock_path = /var/lib/cinder/locks
[service_user]
{_account("cinder", password)}send_service_user_token = true
[nova]
{_account("nova", password)}interface = public
{_tokens("cinder", password)}"""


def _nova(host: str, password: str) -> str:
    services = "".join(
        f"[{name}]\n{_account('nova', password)}" for name in ("placement", "neutron", "cinder")
    )
    return f"""[DEFAULT]
host = {host}
my_ip = {ADDRESS[host]}
state_path = /var/lib/nova
transport_url = {_rabbit(password)}
allow_resize_to_same_host = true
shutdown_timeout = 10
vif_plugging_timeout = 60
initial_cpu_allocation_ratio = 16.0
initial_disk_allocation_ratio = 1.0
[wsgi]
api_paste_config = /etc/nova/api-paste.ini
[oslo_concurrency]
lock_path = /var/lib/nova/locks
[vnc]
enabled = false
[glance]
region_name = RegionOne
[filter_scheduler]
enabled_filters = {FILTERS}
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 30
[conductor]
workers = 1
{services}catalog_info = block-storage::publicURL
[service_user]
{_account("nova", password)}send_service_user_token = true
{_tokens("nova", password)}"""


#: With Open vSwitch without a bridge of its own for each port, Neutron sends no event in a live
#: migration (Nova's bug 1734320).
_COMPUTE = """[DEFAULT]
compute_driver = {driver}
[compute]
cpu_shared_set = {shared}
cpu_dedicated_set = {dedicated}
live_migration_wait_for_vif_plug = false
[libvirt]
virt_type = qemu
cpu_mode = none
wait_soft_reboot_seconds = 10
live_migration_uri = qemu+tcp://%s/system
live_migration_permit_auto_converge = true
[workarounds]
disable_rootwrap = true
[vif_plug_ovs]
ovsdb_connection = unix:/run/openvswitch/db.sock
"""

#: The switch runs in user space: its kernel module is not on every machine.
_OVS_AGENT = """[DEFAULT]
host = {host}
[AGENT]
root_helper = sudo
report_interval = 60
tunnel_types =
[ovs]
datapath_type = netdev
integration_bridge = br-int
[securitygroup]
firewall_driver = noop
"""

#: Only hosts of the cloud reach the address.
_LIBVIRTD = """auth_unix_ro = "none"
auth_unix_rw = "none"
listen_tls = 0
listen_tcp = 1
auth_tcp = "none"
listen_addr = "{address}"
host_uuid = "{uuid}"
"""

_RABBITMQ = """listeners.tcp.1 = 0.0.0.0:5672
default_user = cloud
default_pass = {password}
log.file = false
log.console = true
log.console.level = warning
disk_free_limit.absolute = 50MB
"""

#: Nova copies disks with ssh and scp.
_SSHD = """Port 22
ListenAddress {address}
HostKey /etc/ssh/cloud-host
AuthorizedKeysFile /etc/ssh/cloud.pub
PidFile none
StrictModes no
UsePAM no
Subsystem sftp internal-sftp
"""

_SSH = """Host *
  IdentityFile /etc/ssh/cloud
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


def tempest(password: str, image: str, image_alt: str) -> str:
    """Return the configuration of Tempest, with the features of the hosts and of the guest.

    :param image: its id, as `image_alt`.
    """
    return f"""[DEFAULT]
log_dir = /var/log/tempest
[oslo_concurrency]
lock_path = /var/lib/tempest/locks
[auth]
admin_username = admin
admin_password = {password}
admin_project_name = admin
admin_domain_name = Default
tempest_roles = member
create_isolated_networks = false
[identity]
uri_v3 = {API}:5000/v3
auth_version = v3
region = RegionOne
[identity-feature-enabled]
api_v2 = false
[compute]
image_ref = {image}
image_ref_alt = {image_alt}
flavor_ref = nano
flavor_ref_alt = micro
fixed_network_name = shared
min_compute_nodes = {len(COMPUTES)}
max_microversion = latest
build_timeout = 180
build_interval = 1
[compute-feature-enabled]
resize = true
cold_migration = true
live_migration = true
live_migrate_back_and_forth = true
block_migration_for_live_migration = true
shelve_migrate = true
metadata_service = false
vnc_console = false
snapshot = true
rescue = true
stable_rescue = false
interface_attach = true
attach_encrypted_volume = false
scheduler_enabled_filters = {FILTERS}
[network]
shared_physical_network = false
project_networks_reachable = false
[network-feature-enabled]
floating_ips = false
api_extensions = security-group,port-security,binding,binding-extended,quotas
[validation]
run_validation = false
[service_available]
cinder = true
glance = true
neutron = true
nova = true
swift = false
horizon = false
[image]
build_timeout = 60
[volume]
catalog_type = block-storage
build_timeout = 60
[volume-feature-enabled]
backup = false
snapshot = false
"""
