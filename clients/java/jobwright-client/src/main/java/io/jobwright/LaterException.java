package io.jobwright;

import java.time.Duration;

/** A handler throws it when now is not the time: its work is rolled back, and the job runs again after a delay, at no attempt. */
public class LaterException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** How long the job waits. */
    private final Duration delay;

    /**
     * The job runs again after this time.
     *
     * @param delay 0 to 100 years
     */
    public LaterException(Duration delay) {
        super("later: " + delay);
        if (delay.isNegative() || delay.compareTo(Duration.ofDays(36_600)) > 0) {
            throw new IllegalArgumentException("the delay is " + delay + "; use 0 to 100 years");
        }
        this.delay = delay;
    }

    /**
     * Returns how long the job waits.
     *
     * @return the delay
     */
    public Duration delay() {
        return delay;
    }
}
