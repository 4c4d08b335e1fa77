"""[capacity]: the flavors that are asked about."""

from rtagent.conf.options import Group, mutable


class CapacityOptions(Group, frozen=True, kw_only=True):
    """[capacity].

    :ivar flavors_file:
        The absolute path of a file with flavors. For these and for the flavors of live claims,
        ``rtagent capacity list``, ``rtagent schedule capacity``, the page and the metrics tell how
        many more guests fit. Agents and schedulers have a file of their own each.

        The file has what ``openstack flavor list --long -f json`` or ``openstack flavor show -f
        json`` prints, in JSON if its name ends in ``.json``, else in YAML. A reload reads it again.
    """

    flavors_file: str = mutable(default="")
