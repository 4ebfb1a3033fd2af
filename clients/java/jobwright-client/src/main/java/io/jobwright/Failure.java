package io.jobwright;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.Objects;

/**
 * A failure, for {@link SqlJobs#fail}.
 *
 * @param error one line for people, of which 1,024 characters are kept
 * @param detail such as a stack trace, of which 4,096 characters are kept; or null
 * @param retry when the job runs again; null: by its retry policy
 * @param dead whether it is a dead letter at once, even if attempts are left
 */
public record Failure(String error, String detail, Duration retry, boolean dead) {
    /**
     * Removes NUL characters, which PostgreSQL's texts can't have.
     *
     * @param error one line for people, of which 1,024 characters are kept
     * @param detail such as a stack trace, of which 4,096 characters are kept; or null
     * @param retry when the job runs again; null: by its retry policy
     * @param dead whether it is a dead letter at once, even if attempts are left
     */
    public Failure {
        error = Objects.requireNonNull(error, "error").replace('\0', '\uFFFD');
        detail = detail == null ? null : detail.replace('\0', '\uFFFD');
    }

    /**
     * A failure after which the job runs again by its retry policy.
     *
     * @param thrown the first line of its message becomes the text, and its stack trace the detail
     * @return the failure
     */
    public static Failure of(Throwable thrown) {
        StringWriter trace = new StringWriter();
        thrown.printStackTrace(new PrintWriter(trace));
        // PostgreSQL's driver adds the whole statement. The trace has it all.
        String message = thrown.getMessage() == null ? null : thrown.getMessage().strip().lines().findFirst().orElse("");
        String name = thrown.getClass().getSimpleName();
        // The function keeps as many; longer texts need not be sent.
        return new Failure(cut(message == null ? name : name + ": " + message, 1024), cut(trace.toString(), 4096), null, false);
    }

    /**
     * The same, but a dead letter at once.
     *
     * @return a copy
     */
    public Failure fatal() {
        return new Failure(error, detail, null, true);
    }

    private static String cut(String text, int length) {
        int characters = text.codePointCount(0, text.length());
        return characters <= length ? text : text.substring(0, text.offsetByCodePoints(0, length));
    }
}
