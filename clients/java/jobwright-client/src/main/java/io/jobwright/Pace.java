package io.jobwright;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * When the worker looks for jobs by itself. Most senders by SQL notify no one, so a find that nothing announced says that more such jobs may come: it looks
 * again soon, and then less and less often, until it polls as before. So the pauses follow the gaps between such jobs. Times are those of
 * {@link System#nanoTime}.
 */
final class Pace {
    private static final long SOON = Duration.ofMillis(20).toNanos();

    private final long poll;
    private long pause;
    private long next;

    Pace(Duration poll, long now) {
        this.poll = poll.toNanos();
        pause = this.poll;
        next = now;
    }

    /** Returns when to look again, unless there is a reason to do it earlier. */
    long next() {
        return next;
    }

    /** It has looked. A find was announced if a notification came since the look before. */
    void looked(long now, boolean found, boolean announced) {
        if (found && !announced) {
            soon(now);
            return;
        }
        if (!found && now - next >= 0) {
            pause = Math.min(poll, pause + pause / 2);
        }
        plan(now);
    }

    /** Jobs are likely to come that no notification may announce. */
    void soon(long now) {
        pause = Math.min(poll, SOON);
        plan(now);
    }

    private void plan(long now) {
        // Polls are up to two fifths later, so that workers don't poll together.
        next = now + pause + (pause == poll ? ThreadLocalRandom.current().nextLong(poll * 2 / 5 + 1) : 0);
    }
}
