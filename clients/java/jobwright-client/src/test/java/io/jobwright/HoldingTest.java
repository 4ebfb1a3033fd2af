package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.jobwright.Cancellation.Reason;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The decisions about a held job that no test with a database can time. */
class HoldingTest {
    private final UUID id = UUID.randomUUID();

    private Running taken(long leaseNanos) {
        Job job = new Job(id, UUID.randomUUID(), "k", "{}", null, null, Map.of(), 1, 10, null, null, 0, Instant.EPOCH, Instant.EPOCH, null, null,
                new Cancellation());
        return new Running(job, System.nanoTime() + leaseNanos);
    }

    @Test
    void no_handler_begins_after_the_lease_it_was_taken_with() {
        Running late = taken(-1);
        assertTrue(late.attach());
        assertThrows(Running.NotOurs.class, () -> late.begin(null));
        assertEquals(Optional.of(Reason.LEASE_ENDED), late.job.cancellation().reason());
        assertFalse(late.isKept(), "nor is it renewed");
    }

    @Test
    void a_runner_that_calls_the_work_twice_is_refused() {
        Running running = taken(TimeUnit.MINUTES.toNanos(1));
        running.begin(null);
        running.end();
        assertThrows(Running.NotOurs.class, () -> running.begin(null));
    }

    @Test
    void a_job_that_is_taken_again_ends_the_attempt_before() {
        Slots slots = new Slots(2, false);
        Running first = taken(TimeUnit.MINUTES.toNanos(1));
        Running second = taken(TimeUnit.MINUTES.toNanos(1));
        slots.add(first);
        slots.add(second);
        assertEquals(Optional.of(Reason.LOST), first.job.cancellation().reason());
        // Two of one id in a call would be refused, and with them the renewal of all others.
        assertEquals(1, slots.all().stream().filter(Running::isKept).count());
        assertTrue(second.isKept());
    }

    @Test
    void an_interrupt_that_a_handler_left_behind_is_not_for_the_commit() {
        Running running = taken(TimeUnit.MINUTES.toNanos(1));
        running.begin(null);
        Thread.currentThread().interrupt();
        running.end();
        assertFalse(Thread.interrupted());
    }

    @Test
    void pauses_after_failures_grow_up_to_ten_seconds() {
        Backoff backoff = new Backoff();
        long most = 100;
        for (int i = 0; i < 20; i++) {
            long pause = backoff.nextMillis();
            assertTrue(pause > most * 2 / 3 - 1 && pause <= most, pause + " of " + most);
            most = Math.min(10_000, most * 2);
        }
        backoff.reset();
        assertTrue(backoff.nextMillis() <= 100);
    }

    @Test
    void only_hints_about_the_own_queue_count() {
        for (String hint : new String[] {"qbilling", "rbilling"}) {
            assertTrue(Listener.isNews(hint, "billing"), hint);
        }
        for (String hint : new String[] {"", "q", "g", "t", "qbill", "qbilling2", "xbilling", "billing"}) {
            assertFalse(Listener.isNews(hint, "billing"), hint);
        }
    }

    @Test
    void a_state_of_a_later_version_ends_nothing() {
        assertEquals(Lease.State.HELD, Lease.State.of("held"));
        assertEquals(Lease.State.ENDING, Lease.State.of("ending"));
        assertEquals(Lease.State.ENDING, Lease.State.of("moved"));
    }
}
