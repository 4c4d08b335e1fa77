"""Providers are found for the groups of a request if, and only if, some choice gives them all."""

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rtagent.pci.resource_groups import ResourceGroup, assignments, most_assigned, totals_of

quantities = st.dictionaries(st.sampled_from("AB"), st.integers(1, 3), min_size=1)
_group = st.builds(ResourceGroup, quantities=quantities, isolated=st.booleans())
groups_ = st.lists(_group, max_size=4)
free_ = st.dictionaries(st.sampled_from("AB"), st.integers(0, 4))
hosts = st.dictionaries(st.sampled_from("wxyz"), free_)


def holds(free, groups, chosen):
    """Whether the providers have enough, and no two isolated groups share one."""
    for name in free:
        its = [group for group, provider in zip(groups, chosen, strict=True) if provider == name]
        if not totals_of(its) <= Counter(free[name]) or sum(each.isolated for each in its) > 1:
            return False
    return True


@given(hosts, groups_)
def test_assignments_are_those_that_a_search_of_all_finds(free, groups):
    def fits(provider, wanted):
        return Counter(wanted) <= Counter(free[provider])

    found = list(assignments(groups, lambda group: sorted(free), fits))
    every = itertools.product(free, repeat=len(groups))
    assert sorted(found) == sorted(each for each in every if holds(free, groups, each))
    most = most_assigned(groups, lambda group: sorted(free), fits)
    assert (Counter(most) == totals_of(groups)) is bool(found)
