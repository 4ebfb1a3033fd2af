package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

class SendIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    @Test
    void a_job_exists_if_and_only_if_the_transaction_commits() throws Exception {
        UUID rolledBack;
        UUID committed;
        try (Connection connection = DB.pool.getConnection()) {
            connection.setAutoCommit(false);
            rolledBack = DB.jobs.send(connection, NewJob.json("a", "{}"));
            connection.rollback();
            committed = DB.jobs.send(connection, NewJob.json("a", "{}"));
            connection.commit();
        }
        assertEquals("gone", DB.state(rolledBack));
        assertEquals("waiting", DB.state(committed));
    }

    @Test
    void each_option_arrives() throws Exception {
        UUID id = UUID.randomUUID();
        NewJob job = NewJob.json("full", "{\"a\": [1, \"\u00e4\u20ac\"]}").queue("q").priority(7).exclusiveGroup("g").ordered().uniqueKey("k")
                .uniqueHold(NewJob.Hold.WAITING).uniqueConflict(NewJob.Conflict.REPLACE).maxAttempts(3).retry("fixed(30s)")
                .headers(Map.of("trace", "x", "quoted", "\"{},\\")).ttl(Duration.ofDays(1)).tenant("acme").limitKey("printer").id(id)
                .delay(Duration.ofMinutes(1)).maxPayload(100);
        try (Connection connection = DB.pool.getConnection()) {
            assertEquals(id, DB.jobs.send(connection, job));
            assertEquals(id, DB.jobs.send(connection, job), "an id is sent once");
        }
        assertEquals("timer full q 7 3 g acme printer fixed(30s) true waiting replace x \"{},\\ [1, \"\u00e4\u20ac\"]",
                DB.value("select concat_ws(' ', state, kind, queue, priority, max_attempts, options ->> 'group', options ->> 'tenant',"
                        + " options ->> 'limit', options ->> 'retry', options ->> 'ordered', options -> 'unique' ->> 'hold',"
                        + " options -> 'unique' ->> 'conflict', headers ->> 'trace', headers ->> 'quoted', payload -> 'a')"
                        + " from " + DB.in + "jobs where id = ?", id));
        assertEquals(true, DB.value("select due_at between now() + interval '30 s' and now() + interval '1 min' from " + DB.in + "jobs where id = ?", id));
    }

    @Test
    void null_is_the_default() throws Exception {
        UUID id = DB.send(NewJob.json("a", "null").tenant("t").tenant(null).dueAt(Instant.EPOCH).dueAt(null).ttl(null).exclusiveGroup(null));
        assertEquals("waiting", DB.state(id));
        assertNull(DB.column(id, "options"));
    }

    @Test
    void a_body_arrives_byte_for_byte() throws Exception {
        byte[] body = {0, 1, (byte) 0xff, (byte) 0x80, '\\'};
        UUID id = DB.send(NewJob.body("image", body, "image/png"));
        assertArrayEquals(body, (byte[]) DB.column(id, "body"));
        assertEquals("image/png", DB.column(id, "content_type"));
    }

    @Test
    void a_unique_job_is_sent_once_or_refused() throws Exception {
        NewJob job = NewJob.json("u", "{}").uniqueKey("order-1");
        UUID first = DB.send(job);
        assertEquals(first, DB.send(job));
        SQLException refused = assertThrows(SQLException.class, () -> DB.send(job.uniqueConflict(NewJob.Conflict.REJECT)));
        assertEquals("23505", refused.getSQLState());
        UUID period = DB.send(NewJob.json("u", "{}").uniqueKey("order-2").uniqueFor(Duration.ofMinutes(5)));
        assertNotEquals(first, period);
    }

    @Test
    void an_option_that_cannot_be_used_is_refused_by_name() {
        SQLException refused = assertThrows(SQLException.class, () -> DB.send(NewJob.json("a", "{}").priority(40_000)));
        assertEquals("22023", refused.getSQLState());
        assertTrue(refused.getMessage().contains("priority"), refused.getMessage());
    }

    @Test
    void jobs_are_cancelled_by_id_and_by_key_in_the_transaction() throws Exception {
        UUID one = DB.send("c");
        UUID two = DB.send(NewJob.json("c", "{}").uniqueKey("k").delay(Duration.ofHours(1)));
        try (Connection connection = DB.pool.getConnection()) {
            connection.setAutoCommit(false);
            assertTrue(DB.jobs.cancel(connection, one));
            connection.rollback();
            assertEquals("waiting", DB.state(one));
            assertTrue(DB.jobs.cancel(connection, one));
            assertTrue(DB.jobs.cancel(connection, "c", "k"));
            assertFalse(DB.jobs.cancel(connection, UUID.randomUUID()));
            connection.commit();
        }
        assertEquals("gone", DB.state(one));
        assertEquals("gone", DB.state(two));
    }

    @Test
    void wake_notifies_that_a_queue_has_work() throws Exception {
        try (Connection listening = TestDatabase.driver("listening").getConnection()) {
            TestDatabase.update(listening, "listen \"" + DB.schema + "_wake\"");
            DB.jobs.wake(DB.pool, "billing");
            TestDatabase.await("a notification", () -> {
                PGNotification[] heard = listening.unwrap(PGConnection.class).getNotifications(100);
                return heard != null && java.util.Arrays.stream(heard).anyMatch(n -> n.getParameter().equals("qbilling"));
            });
        }
    }
}
