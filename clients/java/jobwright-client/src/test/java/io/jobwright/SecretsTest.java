package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Instant;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class SecretsTest {
    private final UUID id = new UUID(0, 1);
    private final Job job = new Job(id, new UUID(7, 7), "kind", "\"content\"", new byte[] {1, 2}, "x/y", Map.of("a", "b"), 1, 10, "g", "t", 0,
            Instant.EPOCH, Instant.EPOCH, null, null, new Cancellation());

    @Test
    void texts_of_jobs_show_neither_token_nor_content() {
        assertEquals("Job[00000000-0000-0000-0000-000000000001, kind, attempt 1 of 10]", job.toString());
        assertEquals("Handout[00000000-0000-0000-0000-000000000001]", job.handout().toString());
        assertEquals("NewJob[kind, payload, queue]", NewJob.json("kind", "\"content\"").queue("secret").toString());
    }

    @Test
    void a_body_cannot_be_changed() {
        job.body()[0] = 9;
        assertArrayEquals(new byte[] {1, 2}, job.body());
    }

    @Test
    void a_new_job_is_a_copy_at_each_step() {
        NewJob plain = NewJob.json("kind", "{}");
        plain.queue("other");
        assertEquals("NewJob[kind, payload]", plain.toString());
    }

    @Test
    void a_schema_is_a_plain_name() {
        for (String name : new String[] {"", "a\"b", "a.b", "x".repeat(41)}) {
            assertThrows(IllegalArgumentException.class, () -> new Jobs(name));
        }
    }
}
