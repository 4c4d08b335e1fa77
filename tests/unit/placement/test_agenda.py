"""When the mirror acts."""

import math

from rtagent.placement.agenda import FIRST_RETRY, GATHER, LAST_RETRY, Agenda

NEVER = 0.0


def synced(now=0.0, refresh=NEVER):
    return Agenda().begun(now, refresh).done(now)


def test_nothing_to_do_is_never_due():
    assert synced().due(NEVER) == math.inf


def test_wake_ups_gather_from_the_first():
    assert synced().woken(10).woken(10.2).due(NEVER) == 10 + GATHER


def test_a_change_during_a_round_is_for_the_next():
    agenda = synced().woken(10).begun(11, NEVER).woken(12).woken(13).done(14)
    assert agenda.behind_since == 12


def test_a_change_during_a_round_that_fails_is_no_younger_than_what_failed():
    agenda = synced().woken(10).begun(11, NEVER).woken(12).failed(14, 1)
    assert agenda.behind_since == 10


def test_a_round_that_is_urgent_waits_for_nothing():
    assert synced().failed(0, 1).urged(0).due(NEVER) == -math.inf


def test_an_urgent_wish_during_a_round_is_for_the_next():
    during = Agenda().begun(0, NEVER).urged(1)
    assert during.done(2).due(NEVER) == -math.inf


def test_repeats_come_ever_later_up_to_a_cap():
    agenda, pauses = synced().woken(0), []
    for _ in range(1100):
        agenda = agenda.begun(0, NEVER).failed(0, 1)
        pauses.append(agenda.due(NEVER))
    assert pauses[:3] == [FIRST_RETRY, 2 * FIRST_RETRY, 4 * FIRST_RETRY]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_RETRY


def test_jitter_takes_up_to_half():
    assert synced().woken(0).begun(0, NEVER).failed(0, 0).due(NEVER) == FIRST_RETRY / 2


def test_wake_ups_do_not_shorten_a_back_off():
    agenda = synced().woken(0).begun(0, NEVER).failed(0, 1)
    assert agenda.woken(0.1).due(NEVER) == FIRST_RETRY


def test_success_ends_the_back_off():
    agenda = synced().woken(0).begun(0, NEVER).failed(0, 1).begun(1, NEVER).done(1)
    assert agenda.woken(2).due(NEVER) == 2 + GATHER
    assert agenda.failures == 0


def test_the_first_round_reads():
    assert Agenda().begun(0, NEVER).reading


def test_the_refresh_is_due_after_its_time_and_reads():
    agenda = synced(now=5, refresh=300)
    assert agenda.due(300) == 305
    assert not agenda.woken(6).begun(7, 300).reading
    assert agenda.begun(305, 300).reading
    assert agenda.begun(305, 300).done(306).due(300) == 606


def test_a_round_that_does_not_read_does_not_put_off_the_refresh():
    assert synced(now=5, refresh=300).woken(6).begun(7, 300).done(8).due(300) == 305


def test_forgetting_makes_the_next_round_read():
    assert synced().forgotten(1).due(NEVER) == 1 + GATHER
    assert synced().forgotten(1).begun(2, NEVER).reading


def test_forgetting_during_a_round_is_for_the_next():
    assert synced().begun(0, NEVER).forgotten(1).done(2).begun(3, NEVER).reading


def test_an_urgent_wish_is_served_once():
    assert synced().urged(0).begun(0, NEVER).done(0).due(NEVER) == math.inf


def test_a_round_that_fails_counts_as_the_refresh():
    repeated = synced(now=0, refresh=300).begun(300, 300).failed(301, 1).begun(302, 300)
    assert not repeated.reading
    assert repeated.done(303).due(300) == 601
