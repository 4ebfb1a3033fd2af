package io.jobwright;

import java.util.Objects;
import java.util.UUID;

/**
 * A job together with the proof that it was handed to this worker: {@code take} returned both, and each call that ends or keeps
 * the job needs them.
 *
 * @param id the job's id, the same at each attempt
 * @param token belongs to this attempt alone. Keep it secret: it is enough to end the job
 */
public record Handout(UUID id, UUID token) {
    /**
     * Refuses null.
     *
     * @param id the job's id, the same at each attempt
     * @param token belongs to this attempt alone. Keep it secret: it is enough to end the job
     */
    public Handout {
        Objects.requireNonNull(id, "id");
        Objects.requireNonNull(token, "token");
    }

    /** Shows the id alone, so that no log has the token. */
    @Override
    public String toString() {
        return "Handout[" + id + "]";
    }
}
