"""[pci]: the devices of the host that guests can be given, and the names to request them by."""

from collections.abc import Sequence

from oslo_config import cfg

from rtagent.conf.options import Group, mutable


class Pci(Group, frozen=True, kw_only=True):
    """[pci]: the JSON documents as the operator wrote them.

    :ivar device_spec:
        The devices that guests can be given: a JSON object, or a list of objects. May be repeated.
        The first object that matches a device, in the order of the file, defines its properties.

        Keys that select devices; a key that is absent matches every device:

        * ``vendor_id``, ``product_id``: hexadecimal numbers, with or without ``0x``, or ``*``
        * ``address``: ``[[[[domain]:]bus]:][slot][.[function]]``, where each field is hexadecimal,
          ``*`` or absent; or an object with a regular expression for each of ``domain``, ``bus``,
          ``slot`` and ``function``, which must match from the start of the field. The address of
          one physical function also selects its virtual functions.
        * ``devname``: the name of a network interface on the host; it also selects the interface's
          virtual functions. It cannot be combined with ``address``.

        Keys that define properties of the selected devices:

        * ``physical_network``: the physical network of a network card; ``null`` for tunnelled
          networks
        * ``trusted``: a port may request this virtual function as a trusted one (yes or no;
          default: no). In Nova, of the words for yes only ``true`` counts here.
        * ``remote_managed``: the virtual function belongs to a SmartNIC with its own control plane
          (default: no). A virtual function whose card has no serial number is not available to
          guests. Not for physical functions: an object with ``devname`` or one ``address`` needs
          the ``product_id`` of the virtual functions.
        * ``managed``: libvirt detaches the device from its host driver and reattaches it (default:
          yes)
        * ``live_migratable``: the device can be live-migrated with its guest (default: no)
        * ``one_time_use``: after its first use the device is quarantined until an operator clears
          it (default: no). Not for virtual functions: one that matches is not available to guests.
        * ``resource_class``: the class in Placement. A standard class, in upper or lower case, or
          any other name: ``my-gpu`` becomes ``CUSTOM_MY_GPU``. Absent or empty:
          ``CUSTOM_PCI_<VENDOR>_<PRODUCT>``.
        * ``traits``, separated by commas: of the provider in Placement. A standard trait in upper
          case, or any other name, which becomes ``CUSTOM_*`` in the same way. A blank is part of a
          name, as in Nova.

        Another key is a mistake: misspelt, it would select other devices. Nova keeps it as a tag.

        ::

          device_spec = {"vendor_id": "10de", "product_id": "13f1"}
          device_spec = {"address": "0000:20:00.0", "physical_network": "physnet1", "trusted": "true"}
          device_spec = {"address": {"bus": "8[0-9a-f]", "function": "[2-7]"}, "physical_network": null}

        A device that no longer matches a specification while a guest uses it stays with that guest.
    :ivar report_in_placement:
        Publish the devices of ``device_spec`` to Placement: a child provider for each device, or
        for each physical function, whose inventory counts its virtual functions. False: Placement
        has no records of devices.

        Devices with a ``physical_network``, which belong to ports, are not published. The rules for
        the others:

        * No ``device_spec`` has a ``devname``: the agent does not start.
        * The virtual functions of one physical function have the same ``resource_class`` and the
          same ``traits``.
        * No physical function is available to guests together with its virtual functions.

        A device that breaks the second or the third rule is not published; the audit reports it.
    :ivar alias:
        A name by which flavors request devices (``pci_passthrough:alias=NAME:COUNT``): a JSON
        object, or a list of objects. May be repeated; objects with the same name are alternatives.

        * ``name``: required
        * ``vendor_id`` and ``product_id``, both hexadecimal; or ``resource_class``; or all three.
          Names of classes and traits are those of ``device_spec``.
        * ``device_type``: ``type-PCI``, ``type-PF``, ``type-VF`` or ``vdpa``. A physical function
          or a vDPA device is only allocated for an alias that names its type.
        * ``numa_policy``: ``required``, ``legacy`` (the default: required if the device reports its
          NUMA node), ``preferred`` or ``socket``; the same for all alternatives
        * ``traits``: separated by commas; the device must have all of them
        * ``live_migratable``: yes or no; absent: both match

        ::

          alias = {"name": "QuadroM4000-video", "vendor_id": "10de", "product_id": "13f1"}
    """  # noqa: E501  a line of an example cannot be broken

    device_spec: Sequence[str] = mutable(
        cfg.MultiStrOpt,
        default=[],
        deprecated_opts=[
            cfg.DeprecatedOpt("passthrough_whitelist", group="pci"),
            cfg.DeprecatedOpt("pci_passthrough_whitelist", group="DEFAULT"),
        ],
    )
    report_in_placement: bool = mutable(default=False)
    alias: Sequence[str] = mutable(
        cfg.MultiStrOpt, default=[], deprecated_name="pci_alias", deprecated_group="DEFAULT"
    )
