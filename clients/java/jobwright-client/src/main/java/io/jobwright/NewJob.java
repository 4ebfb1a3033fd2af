package io.jobwright;

import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

/**
 * A job to be sent. It is immutable: each method returns a copy with one option more. Options that are left out, or null, have the
 * defaults of the database's function {@code send}, which also checks them all.
 *
 * <pre>{@code
 * NewJob.json("send-invoice", "{\"order\": 42}").queue("billing").delay(Duration.ofMinutes(1)).exclusiveGroup("order-42")
 * }</pre>
 */
public final class NewJob {
    /** How long a unique key is held. */
    public enum Hold {
        /** Until the job is gone. */
        DONE,
        /** Until the job starts. */
        WAITING
    }

    /** The answer to a unique key that a job of the kind holds. */
    public enum Conflict {
        /** Nothing is sent, and the id of that job is returned. */
        KEEP,
        /** That job is replaced, if it waits. */
        REPLACE,
        /** The call fails with SQLSTATE 23505. */
        REJECT
    }

    /** The parameter of an argument: its place in the text of the call, and its value. */
    record Argument(String parameter, Object value) {}

    private final Map<String, Argument> arguments;

    private NewJob(Map<String, Argument> arguments) {
        this.arguments = arguments;
    }

    /**
     * A job whose content is JSON.
     *
     * @param kind chooses the handler
     * @param payload JSON; {@code "null"} is JSON too
     * @return the job
     */
    public static NewJob json(String kind, String payload) {
        return kind(kind).and("payload", "?::jsonb", Objects.requireNonNull(payload, "payload"));
    }

    /**
     * A job whose content is not JSON.
     *
     * @param kind chooses the handler
     * @param body the content, at most 1 MiB unless {@link #maxPayload} says otherwise
     * @param contentType its format, for example {@code image/png}
     * @return the job
     */
    public static NewJob body(String kind, byte[] body, String contentType) {
        return kind(kind).and("payload", "?::jsonb", null).and("body", "?::bytea", body.clone())
                .and("content_type", "?", Objects.requireNonNull(contentType, "contentType"));
    }

    private static NewJob kind(String kind) {
        return new NewJob(Map.of()).and("kind", "?", Objects.requireNonNull(kind, "kind"));
    }

    /**
     * Sets the queue.
     *
     * @param queue its name; {@code default} without it
     * @return a copy
     */
    public NewJob queue(String queue) {
        return given("queue", "?", queue);
    }

    /**
     * Sets the priority.
     *
     * @param priority -32767 to 32767; higher ones start first, 0 without it
     * @return a copy
     */
    public NewJob priority(int priority) {
        return given("priority", "?::integer", priority);
    }

    /**
     * Sets when the job is due. In place of an earlier {@link #delay}.
     *
     * @param dueAt a moment at most 100 years ahead, by the database's clock
     * @return a copy
     */
    public NewJob dueAt(Instant dueAt) {
        return given("due_at", "?::timestamptz", dueAt);
    }

    /**
     * Sets when the job is due, from the call on. In place of an earlier {@link #dueAt}.
     *
     * @param delay at most 100 years
     * @return a copy
     */
    public NewJob delay(Duration delay) {
        return given("due_at", "clock_timestamp() + ?::interval", delay);
    }

    /**
     * Puts the job into a group, whose jobs start one after the other.
     *
     * @param group its name
     * @return a copy
     */
    public NewJob exclusiveGroup(String group) {
        return given("exclusive_group", "?", group);
    }

    /**
     * Keeps the order of the group: if the job fails, its group waits for it.
     *
     * @return a copy
     */
    public NewJob ordered() {
        return given("ordered", "?::boolean", true);
    }

    /**
     * Sends the job only if no job of its kind holds this key.
     *
     * @param key at most 200 bytes
     * @return a copy
     */
    public NewJob uniqueKey(String key) {
        return given("unique_key", "?", key);
    }

    /**
     * Gives a unique key as the library for Rust computes it, in place of {@link #uniqueKey}.
     *
     * @param digest 32 bytes
     * @return a copy
     */
    public NewJob uniqueDigest(byte[] digest) {
        return given("unique_digest", "?::bytea", digest.clone());
    }

    /**
     * Sets how long the unique key is held.
     *
     * @param hold {@link Hold#DONE} without it
     * @return a copy
     */
    public NewJob uniqueHold(Hold hold) {
        return given("unique_hold", "?", hold.name().toLowerCase(java.util.Locale.ROOT));
    }

    /**
     * Holds the unique key for this long, even if the job is gone before.
     *
     * @param period 1 ms to 100 years
     * @return a copy
     */
    public NewJob uniqueFor(Duration period) {
        return given("unique_hold", "?", "period").given("unique_period", "?::interval", period);
    }

    /**
     * Sets the answer to a unique key that is held.
     *
     * @param conflict {@link Conflict#KEEP} without it
     * @return a copy
     */
    public NewJob uniqueConflict(Conflict conflict) {
        return given("unique_conflict", "?", conflict.name().toLowerCase(java.util.Locale.ROOT));
    }

    /**
     * Sets after how many failures the job is a dead letter.
     *
     * @param attempts 1 or more; 10 without it
     * @return a copy
     */
    public NewJob maxAttempts(int attempts) {
        return given("max_attempts", "?::integer", attempts);
    }

    /**
     * Sets the delays between attempts.
     *
     * @param policy {@code exponential(2s, 2, 1h)}, {@code fixed(30s)}, or a list such as {@code PT1M,PT5M,PT1H}
     * @return a copy
     */
    public NewJob retry(String policy) {
        return given("retry", "?", policy);
    }

    /**
     * Sets all headers.
     *
     * @param headers at most 64 names with values of at most 4096 bytes
     * @return a copy
     */
    public NewJob headers(Map<String, String> headers) {
        String[] pairs = headers.entrySet().stream().flatMap(h -> java.util.stream.Stream.of(h.getKey(), h.getValue())).toArray(String[]::new);
        return given("headers", "jsonb_object(?::text[])", pairs);
    }

    /**
     * Sets for how long the job may wait; then it is a dead letter.
     *
     * @param ttl 1 ms to 100 years
     * @return a copy
     */
    public NewJob ttl(Duration ttl) {
        return given("ttl", "?::interval", ttl);
    }

    /**
     * Sets the tenant.
     *
     * @param tenant at most 200 bytes
     * @return a copy
     */
    public NewJob tenant(String tenant) {
        return given("tenant", "?", tenant);
    }

    /**
     * Sets the key under which limits count the job.
     *
     * @param key at most 200 bytes
     * @return a copy
     */
    public NewJob limitKey(String key) {
        return given("limit_key", "?", key);
    }

    /**
     * Sends the job once: while a job of this id exists, nothing is sent. If that one has another kind or queue, the call fails with
     * SQLSTATE 23505.
     *
     * @param id of your own
     * @return a copy
     */
    public NewJob id(UUID id) {
        return given("id", "?::uuid", id);
    }

    /**
     * Sets how long the content may be, in this call.
     *
     * @param bytes 1 MiB without it; executors expect at most their {@code database.max_payload}
     * @return a copy
     */
    public NewJob maxPayload(int bytes) {
        return given("max_payload", "?::integer", bytes);
    }

    Map<String, Argument> arguments() {
        return arguments;
    }

    /** An option that is null is as if it were left out. */
    private NewJob given(String name, String parameter, Object value) {
        if (value != null) {
            return and(name, parameter, value);
        }
        Map<String, Argument> fewer = new LinkedHashMap<>(arguments);
        fewer.remove(name);
        return new NewJob(fewer);
    }

    private NewJob and(String name, String parameter, Object value) {
        Map<String, Argument> more = new LinkedHashMap<>(arguments);
        more.put(name, new Argument(parameter, value));
        return new NewJob(more);
    }

    /** Shows the names of the options alone: contents may be secret. */
    @Override
    public String toString() {
        return "NewJob" + arguments.keySet();
    }
}
