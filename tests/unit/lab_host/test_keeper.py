"""What hosts that are booted to be played on offer."""

from lab.keeper import OFFERED
from rtagent.pci.alias import parse_aliases
from rtagent.pci.spec import parse_specs


def test_the_agent_takes_it():
    assert len(parse_specs([OFFERED["pci"]["device_spec"]])) == 2
    assert set(parse_aliases([OFFERED["pci"]["alias"]])) == {"nvme", "edu"}
