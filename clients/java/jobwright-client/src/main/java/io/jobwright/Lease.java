package io.jobwright;

import java.time.Instant;
import java.util.Arrays;
import java.util.UUID;

/**
 * The answer of {@link SqlJobs#extendMany} about one job.
 *
 * @param id of the job
 * @param state whether it is still this worker's
 * @param until when the lease ends by the database's clock; null if it is lost or cancelled
 */
public record Lease(UUID id, State state, Instant until) {
    /** Whether a job is still this worker's. */
    public enum State {
        /** It is, for another lease. */
        HELD,
        /** Another transaction is just ending the job or taking it away, and the lease stays as it is. Go on, and ask again. */
        ENDING,
        /** It is not: the lease ended, or the job was ended before. Stop its work; it may run elsewhere. */
        LOST,
        /** The job was cancelled. Stop its work, and {@code release} it without {@code strict}. */
        CANCELLED;

        /** A state that only later versions know must not end the renewal of all others. The token decides at the end of the job. */
        static State of(String name) {
            return Arrays.stream(values()).filter(state -> state.name().equalsIgnoreCase(name)).findFirst().orElse(ENDING);
        }
    }
}
