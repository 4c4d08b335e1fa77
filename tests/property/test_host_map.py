"""Whatever has happened on a node, the host map shows what the documents of the read API show."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_numa_fit import hosts as numa_hosts
from tests.property.test_pci_fit import hosts as pci_hosts
from tests.support.api_states import check_map
from tests.support.random_nodes import random_node


@settings(max_examples=settings.default.max_examples // 2)
@given(numa_hosts(), pci_hosts(), st.randoms(use_true_random=False))
def test_the_map_shows_what_the_documents_show(there, devices, rng):
    check_map(random_node(random.Random(rng.random()), there, devices))
