package io.jobwright;

import java.util.Optional;

/** Tells a handler that its work can no longer be committed. It is set at most once, together with an interrupt of the handler's thread. */
public final class Cancellation {
    /** The reason why the work should end. */
    public enum Reason {
        /** The job was cancelled. */
        CANCELLED,
        /** The job was given to another worker, or was ended elsewhere. */
        LOST,
        /** The lease ended, because it could not be renewed in time. */
        LEASE_ENDED,
        /** The worker stops and no longer waits; the job runs again elsewhere, at no attempt. */
        STOPPING
    }

    private volatile Reason reason;

    /** Nothing ends the work yet. */
    public Cancellation() {}

    /**
     * Returns whether the work should end now.
     *
     * @return true once there is a {@link #reason()}
     */
    public boolean isCancelled() {
        return reason != null;
    }

    /**
     * Returns why the work should end.
     *
     * @return the reason, empty while there is none
     */
    public Optional<Reason> reason() {
        return Optional.ofNullable(reason);
    }

    void tell(Reason why) {
        if (reason == null) {
            reason = why;
        }
    }
}
