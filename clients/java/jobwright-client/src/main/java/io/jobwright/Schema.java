package io.jobwright;

import java.util.Objects;
import java.util.regex.Pattern;

/** The schema in which jobwright's functions are. Its name is part of statements, so it is checked and quoted. */
final class Schema {
    static final String DEFAULT = "jobwright";
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_]{1,40}");

    private final String name;

    Schema(String name) {
        if (!NAME.matcher(Objects.requireNonNull(name, "schema")).matches()) {
            throw new IllegalArgumentException("the schema must have 1 to 40 letters, digits or _");
        }
        this.name = name;
    }

    /** The quoted name of a function. */
    String function(String function) {
        return '"' + name + "\"." + function;
    }

    /** The quoted name of the channel on which queues with work are named. */
    String channel() {
        return '"' + name + "_wake\"";
    }
}
