package io.jobwright;

import java.time.Instant;
import java.util.UUID;

/**
 * The answer of {@link SqlJobs#extendMany} about one job.
 *
 * @param id of the job
 * @param state whether it is still this worker's
 * @param until when the lease ends by the database's clock; null unless it is held
 */
public record Lease(UUID id, State state, Instant until) {
    /** Whether a job is still this worker's. */
    public enum State {
        /** It is, for another lease. */
        HELD,
        /** It is not: the lease ended, or the job was ended before. Stop its work; it may run elsewhere. */
        LOST,
        /** The job was cancelled. Stop its work, and {@code release} it without {@code strict}. */
        CANCELLED
    }
}
