"""Which host cells a guest cell fits by its shared vCPUs."""

from decimal import Decimal

from rtagent.model.decision import ReasonCode
from rtagent.model.usage import NumaUsage
from rtagent.numa.fit import Fitted
from rtagent.numa.host_cells import CellLimits
from tests.support.numa_hosts import ONE_CELL, fit_guest, host, pinned, reasons_of, required

LIMITS = CellLimits(cpu_allocation_ratio=Decimal("1.5"), ram_allocation_ratio=Decimal("1.5"))


def test_shared_vcpus_of_all_guests_stay_within_the_ratio():
    where = host(ONE_CELL, usage=NumaUsage(vcpus={0: 10}))
    assert isinstance(fit_guest(required(2, numa_nodes="1"), where, LIMITS), Fitted)
    (reason,) = fit_guest(required(3, numa_nodes="1"), where, LIMITS).reasons
    assert (reason.resource, reason.requested, reason.available) == ("VCPU", 3, 2)


def test_guest_cell_never_has_more_vcpus_than_the_host_cell_has_cpus():
    answer = fit_guest(required(9, 1024, numa_nodes="1"), host(ONE_CELL), LIMITS)
    assert reasons_of(answer) == [(ReasonCode.EXCEEDS_CELL, "VCPU", "cell 0")]


def test_ratio_limits_only_the_shared_vcpus_of_a_mixed_guest():
    where = host(ONE_CELL, "0-5", "6-7", usage=NumaUsage(vcpus={0: 2}))
    guest = required(5, cpu_policy="mixed", cpu_dedicated_mask="^0")
    assert isinstance(fit_guest(guest, where, LIMITS), Fitted)
    guest = required(5, cpu_policy="mixed", cpu_dedicated_mask="^0-1")
    assert reasons_of(fit_guest(guest, where, LIMITS)) == [
        (ReasonCode.INSUFFICIENT, "VCPU", "cell 0")
    ]


def test_ratio_below_one_does_not_limit_dedicated_cpus():
    half = CellLimits(cpu_allocation_ratio=Decimal("0.5"), ram_allocation_ratio=Decimal("0.5"))
    assert isinstance(fit_guest(pinned(8, 8192), host(ONE_CELL, "0-7"), half), Fitted)
