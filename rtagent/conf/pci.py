"""[pci]: which devices of the host guests may be given, and under which names."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "pci"

OPTS = [
    cfg.MultiStrOpt(
        "device_spec",
        default=[],
        mutable=True,
        deprecated_opts=[
            cfg.DeprecatedOpt("passthrough_whitelist", group="pci"),
            cfg.DeprecatedOpt("pci_passthrough_whitelist", group="DEFAULT"),
        ],
        help="""
Devices that guests may be given: a JSON object, or a list of them. May be given several times;
of all of them the first that matches a device says what it is.

What makes a device match; what is left out matches any:

* ``vendor_id``, ``product_id``: hexadecimal, or ``*``
* ``address``: ``[[[[domain]:]bus]:][slot][.[function]]``, where each field is hexadecimal, ``*``
  or left out; or an object with a regular expression for each of ``domain``, ``bus``, ``slot``
  and ``function``, which matches from the beginning of the field. An address of one physical
  function stands for its virtual functions, too.
* ``devname``: the host's name of a network interface, its virtual functions included. Not with
  ``address``.

What is said of a device that does:

* ``physical_network``: of a network card; ``null`` for tunnelled networks
* ``trusted``: a port may ask for a virtual function that is trusted (yes or no; default: no)
* ``remote_managed``: a virtual function of a SmartNIC with its own control plane (default: no);
  one whose card has no serial number is not offered
* ``managed``: libvirt binds the device to its driver and back (default: yes)
* ``live_migratable``: the device moves with a guest that runs (default: no)
* ``one_time_use``: given out once, and then kept back until it is cleared (default: no); not for
  virtual functions
* ``resource_class``, ``traits`` (with commas): as Placement is to know it

::

  device_spec = {"vendor_id": "10de", "product_id": "13f1"}
  device_spec = {"address": "0000:20:00.0", "physical_network": "physnet1", "trusted": "true"}
  device_spec = {"address": {"bus": "8[0-9a-f]", "function": "[2-7]"}, "physical_network": null}

A device that leaves the specifications while a guest holds it stays with that guest.
""",
    ),
    cfg.BoolOpt(
        "report_in_placement",
        default=False,
        mutable=True,
        help="""
Tell Placement of the devices of ``device_spec``: a child provider for each, or for each physical
function with its virtual functions counted on it. Without it Placement knows of none.

Not told are devices with a ``physical_network``, which ports are given. Of the others:

* no ``device_spec`` has a ``devname``
* the virtual functions of one physical function have the same ``resource_class`` and the same
  ``traits``
* no physical function is offered together with its virtual functions

What breaks that when the agent starts ends the start. A device that breaks it when it is plugged in
later is not told to Placement; the audit says so.
""",
    ),
    cfg.MultiStrOpt(
        "alias",
        default=[],
        mutable=True,
        deprecated_name="pci_alias",
        deprecated_group="DEFAULT",
        help="""
A name under which flavors ask for devices (``pci_passthrough:alias=NAME:COUNT``): a JSON object,
or a list of them. May be given several times; objects with the same name are alternatives.

* ``name``: must be there
* ``vendor_id``, ``product_id``: hexadecimal, both; or ``resource_class``, or all three
* ``device_type``: ``type-PCI``, ``type-PF``, ``type-VF`` or ``vdpa``. A physical function, or a
  vDPA device, is given only to who names its type.
* ``numa_policy``: ``required``, ``legacy`` (the default: required of devices that know their
  NUMA node), ``preferred`` or ``socket``; the same for every alternative
* ``traits``: with commas, each of which the device must have
* ``live_migratable``: yes or no; left out, either will do

::

  alias = {"name": "QuadroM4000-video", "vendor_id": "10de", "product_id": "13f1"}
""",
    ),
]


class Pci(Value, frozen=True, kw_only=True):
    """The documents as they are written."""

    device_spec: Sequence[str]
    report_in_placement: bool
    alias: Sequence[str]
