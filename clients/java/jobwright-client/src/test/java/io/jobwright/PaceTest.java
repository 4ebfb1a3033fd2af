package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class PaceTest {
    private static final long POLL = TimeUnit.SECONDS.toNanos(5);

    private final Pace pace = new Pace(Duration.ofSeconds(5), 0);

    private long pause(long now) {
        return TimeUnit.NANOSECONDS.toMillis(pace.next() - now);
    }

    @Test
    void after_a_find_that_nothing_announced_it_looks_soon_and_then_less_often() {
        pace.looked(0, true, false);
        long[] expected = {20, 30, 45, 67, 101};
        long now = 0;
        for (long millis : expected) {
            assertEquals(millis, pause(now));
            now = pace.next();
            pace.looked(now, false, false);
        }
        int looks = 0;
        while (pace.next() - now < POLL) {
            now = pace.next();
            pace.looked(now, false, false);
            looks++;
        }
        assertTrue(looks < 12, "so many until it polls as before: " + looks);
        for (int i = 0; i < 20; i++) {
            assertTrue(pace.next() - now >= POLL && pace.next() - now <= POLL * 7 / 5);
            now = pace.next();
            pace.looked(now, false, false);
        }
        pace.looked(now, true, false);
        assertEquals(20, pause(now));
    }

    @Test
    void announced_jobs_and_looks_in_between_change_no_pause() {
        pace.looked(0, false, false);
        pace.looked(1, true, true);
        assertTrue(pace.next() >= POLL);
        pace.soon(1);
        pace.looked(2, false, true);
        assertEquals(20, pause(2));
    }

    @Test
    void it_never_waits_longer_than_a_short_poll_interval() {
        Pace fast = new Pace(Duration.ofMillis(10), 0);
        fast.looked(0, true, false);
        assertTrue(fast.next() <= TimeUnit.MILLISECONDS.toNanos(14));
    }
}
