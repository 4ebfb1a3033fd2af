package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.SQLException;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class FailureTest {
    @Test
    void a_long_text_is_cut_between_characters() {
        Failure failure = Failure.of(new IllegalStateException("\uD83D\uDE00".repeat(2_000)));
        assertEquals(1_024, failure.error().codePointCount(0, failure.error().length()));
        assertFalse(Character.isHighSurrogate(failure.error().charAt(failure.error().length() - 1)));
        assertTrue(failure.detail().length() <= 2 * 4_096);
    }

    @Test
    void the_text_is_one_line() {
        Failure failure = Failure.of(new SQLException("no such table\n  Where: statement 7"));
        assertEquals("SQLException: no such table", failure.error());
        assertTrue(failure.detail().contains("statement 7"));
    }

    @Test
    void an_exception_without_a_message_is_named() {
        assertEquals("NullPointerException", Failure.of(new NullPointerException()).error());
    }

    @Test
    void the_state_of_a_late_end_is_found_among_the_causes() {
        Exception wrapped = new IllegalStateException(new RuntimeException(new SQLException("late", "JW002")));
        assertTrue(SqlJobs.isLate(wrapped));
        assertFalse(SqlJobs.isCancelled(wrapped));
        assertTrue(SqlJobs.isCancelled(new SQLException("cancelled", "JW003")));
    }

    @Test
    void a_delay_that_cannot_be_used_is_refused_at_once() {
        assertThrows(IllegalArgumentException.class, () -> new LaterException(Duration.ofSeconds(-1)));
        assertThrows(IllegalArgumentException.class, () -> new LaterException(Duration.ofDays(40_000)));
    }
}
