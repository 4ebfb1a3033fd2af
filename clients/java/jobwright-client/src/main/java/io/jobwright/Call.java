package io.jobwright;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import java.util.stream.Collectors;

/** One call of a function. Each parameter has a cast in the text, so that values can be bound as text, and null as null. */
final class Call {
    interface Row<T> {
        T read(ResultSet row) throws SQLException;
    }

    private final String text;
    private final List<Object> values = new ArrayList<>();

    Call(String text) {
        this.text = text;
    }

    Call with(Object value) {
        values.add(value);
        return this;
    }

    <T> List<T> rows(Connection connection, Duration deadline, Row<T> row) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            statement.setQueryTimeout(seconds(deadline));
            for (int i = 0; i < values.size(); i++) {
                bind(connection, statement, i + 1, values.get(i));
            }
            try (ResultSet result = statement.executeQuery()) {
                List<T> rows = new ArrayList<>();
                while (result.next()) {
                    rows.add(row.read(result));
                }
                return rows;
            }
        }
    }

    <T> T row(Connection connection, Duration deadline, Row<T> row) throws SQLException {
        List<T> rows = rows(connection, deadline, row);
        return rows.isEmpty() ? null : rows.get(0);
    }

    private static void bind(Connection connection, PreparedStatement statement, int at, Object value) throws SQLException {
        if (value == null) {
            statement.setNull(at, Types.VARCHAR);
        } else if (value instanceof byte[] bytes) {
            statement.setBytes(at, bytes);
        } else if (value instanceof Boolean flag) {
            statement.setBoolean(at, flag);
        } else if (value instanceof Integer number) {
            statement.setInt(at, number);
        } else if (value instanceof String[] texts) {
            statement.setArray(at, connection.createArrayOf("text", texts));
        } else {
            // UUIDs, and durations, which PostgreSQL reads in the form of ISO 8601.
            statement.setString(at, value.toString());
        }
    }

    /** The text of an array of UUIDs, which needs no support of the driver. */
    static String uuids(Collection<UUID> ids) {
        return ids.stream().map(UUID::toString).collect(Collectors.joining(",", "{", "}"));
    }

    /** Whole seconds, rounded up: 0 would mean no deadline at all. */
    static int seconds(Duration duration) {
        return (int) Math.max(1, Math.min(Integer.MAX_VALUE / 1000, (duration.toMillis() + 999) / 1000));
    }
}
