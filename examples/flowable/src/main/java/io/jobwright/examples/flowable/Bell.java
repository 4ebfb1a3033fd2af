package io.jobwright.examples.flowable;

import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** A sign that there may be work. It wakes one of those that wait, and is kept if none does. */
final class Bell {
    private final Semaphore rung = new Semaphore(0);

    void ring() {
        if (rung.availablePermits() == 0) {
            rung.release();
        }
    }

    /** Returns when it was rung, or after this time. */
    void await(Duration atMost) throws InterruptedException {
        if (rung.tryAcquire(atMost.toMillis(), TimeUnit.MILLISECONDS)) {
            rung.drainPermits();
        }
    }
}
