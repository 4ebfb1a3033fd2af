package io.jobwright;

import java.util.concurrent.ThreadLocalRandom;

/** Pauses between tries: 0.1 s, doubled up to 10 s, each shorter by up to a third, so that workers don't all come back together. */
final class Backoff {
    private static final long FIRST = 100;
    private static final long LONGEST = 10_000;

    private long pause = FIRST;

    long nextMillis() {
        long next = pause - ThreadLocalRandom.current().nextLong(pause / 3);
        pause = Math.min(LONGEST, pause * 2);
        return next;
    }

    void reset() {
        pause = FIRST;
    }
}
