package io.jobwright;

/** A handler throws it when no further attempt makes sense: its work is rolled back, and the job is a dead letter at once. */
public class FatalException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /**
     * The job is a dead letter, with this text.
     *
     * @param message one line for people
     */
    public FatalException(String message) {
        super(message);
    }

    /**
     * The job is a dead letter, with this text.
     *
     * @param message one line for people
     * @param cause is in the detail of the error
     */
    public FatalException(String message, Throwable cause) {
        super(message, cause);
    }
}
