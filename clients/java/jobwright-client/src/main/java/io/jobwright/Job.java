package io.jobwright;

import java.time.Instant;
import java.util.Map;
import java.util.UUID;

/**
 * A job that was taken. It has either a {@code payload} (JSON) or a {@code body} with its {@code contentType}.
 *
 * @param id the same at each attempt: key effects by it that must happen once
 * @param token the proof of this attempt, see {@link Handout}
 * @param kind chooses the handler
 * @param payload JSON, or null if there is a body
 * @param body content in another format, or null
 * @param contentType the format of the body, or null
 * @param headers names and values, never null
 * @param attempt 1 at the first attempt; this one included
 * @param maxAttempts after a failure of this attempt the job is a dead letter
 * @param exclusiveGroup the group whose jobs never overlap, or null
 * @param tenant or null
 * @param priority higher ones start first
 * @param createdAt when the job was sent
 * @param leaseUntil when the lease ends by the database's clock, unless it is renewed
 * @param lastError of the attempt before, or null
 * @param checkpoint JSON that an earlier attempt left by {@link SqlJobs#progress}, or null
 * @param cancellation tells when to stop; a new one in a test of a handler
 */
public record Job(
        UUID id,
        UUID token,
        String kind,
        String payload,
        byte[] body,
        String contentType,
        Map<String, String> headers,
        int attempt,
        int maxAttempts,
        String exclusiveGroup,
        String tenant,
        int priority,
        Instant createdAt,
        Instant leaseUntil,
        String lastError,
        String checkpoint,
        Cancellation cancellation) {
    /**
     * Returns the content in another format.
     *
     * @return a copy, or null
     */
    @Override
    public byte[] body() {
        return body == null ? null : body.clone();
    }

    /**
     * Returns the id and the token, by which {@link SqlJobs} ends the job.
     *
     * @return both
     */
    public Handout handout() {
        return new Handout(id, token);
    }

    /**
     * Returns whether the work can no longer be committed, so that a long handler may give up. Its thread is interrupted too.
     *
     * @return true if the job was cancelled, its lease is lost, or the worker stops and no longer waits
     */
    public boolean isCancelled() {
        return cancellation.isCancelled();
    }

    /** Two jobs are equal if they are the same attempt of one job. */
    @Override
    public boolean equals(Object other) {
        return other instanceof Job job && id.equals(job.id) && token.equals(job.token);
    }

    @Override
    public int hashCode() {
        return id.hashCode();
    }

    /** Shows neither content nor token, so that it may be logged. */
    @Override
    public String toString() {
        return "Job[" + id + ", " + kind + ", attempt " + attempt + " of " + maxAttempts + "]";
    }
}
