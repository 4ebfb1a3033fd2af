package io.jobwright;

import java.time.Duration;
import java.util.List;
import java.util.Objects;

/**
 * The question of {@link SqlJobs#take}.
 *
 * @param queue from which jobs are taken
 * @param worker a name for people: {@code jobwright status} shows it. Several processes may have the same one
 * @param n how many at most: 1 to 1,000
 * @param lease how long each is kept from others: 1 second to 1 day
 * @param kinds only jobs of these kinds; empty: of any
 * @param contentTypes sealed or compressed formats that the caller can read, {@code *} for all; empty: none of them
 */
public record Take(String queue, String worker, int n, Duration lease, List<String> kinds, List<String> contentTypes) {
    /**
     * Copies the lists. The database checks the rest.
     *
     * @param queue from which jobs are taken
     * @param worker a name for people: {@code jobwright status} shows it. Several processes may have the same one
     * @param n how many at most: 1 to 1,000
     * @param lease how long each is kept from others: 1 second to 1 day
     * @param kinds only jobs of these kinds; empty: of any
     * @param contentTypes sealed or compressed formats that the caller can read, {@code *} for all; empty: none of them
     */
    public Take {
        Objects.requireNonNull(queue, "queue");
        Objects.requireNonNull(worker, "worker");
        Objects.requireNonNull(lease, "lease");
        kinds = List.copyOf(kinds);
        contentTypes = List.copyOf(contentTypes);
    }

    /**
     * Asks for jobs of any kind.
     *
     * @param queue from which jobs are taken
     * @param worker a name for people
     * @param n how many at most: 1 to 1,000
     * @param lease how long each is kept from others: 1 second to 1 day
     */
    public Take(String queue, String worker, int n, Duration lease) {
        this(queue, worker, n, lease, List.of(), List.of());
    }

    Take n(int other) {
        return new Take(queue, worker, other, lease, kinds, contentTypes);
    }
}
