package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class ProcessIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    private final List<Process> started = new ArrayList<>();

    private Process start(String name, double seconds) throws Exception {
        Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-XX:+UseSerialGC", "-Xmx128m",
                "-cp", System.getProperty("java.class.path"), WorkerProcess.class.getName(), DB.schema, name, Double.toString(seconds))
                .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.INHERIT).start();
        started.add(process);
        return process;
    }

    @AfterEach
    void end() throws Exception {
        for (Process process : started) {
            process.destroyForcibly().waitFor(20, TimeUnit.SECONDS);
        }
    }

    private static long starts(String by) throws Exception {
        return (long) DB.value("select count(*) from " + DB.in + "starts where by = ?", by);
    }

    @Test
    void after_a_kill_another_process_goes_on_and_nothing_starts_twice_within_its_lease() throws Exception {
        List<UUID> sent = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            sent.add(DB.send(NewJob.json("step", "{}").exclusiveGroup(i % 4 == 0 ? "g" : null)));
        }
        Process victim = start("victim", 0.3);
        TestDatabase.await("the victim to be busy", () -> starts("victim") >= 6);
        // kill -9: nothing is given back, and the connections are closed by the system.
        victim.destroyForcibly();
        assertTrue(victim.waitFor(20, TimeUnit.SECONDS));
        start("heir", 0.02);
        TestDatabase.await("all jobs to be done", () -> (long) DB.value("select count(*) from " + DB.in + "jobs") == 0);

        assertTrue(starts("heir") > 0);
        for (UUID id : sent) {
            assertEquals(1, DB.written(id), "each job's work is committed once");
        }
        // A second start of one attempt would have failed, and be an error of the job. An attempt after another began when that had ended:
        assertEquals(0L, DB.value("select count(*) from " + DB.in + "starts a join " + DB.in
                + "starts b on b.id = a.id and b.attempt = a.attempt + 1 where b.at < a.lease_until"));
        assertTrue((long) DB.value("select count(*) from " + DB.in + "starts where attempt = 2") > 0, "the victim had begun some");
        assertEquals(0L, DB.value("select count(*) from " + DB.in + "starts where attempt > 2"));
    }

    @Test
    void a_process_that_was_paused_for_longer_than_its_lease_cannot_commit() throws Exception {
        UUID id = DB.send("paused");
        Process sleeper = start("sleeper", 0.5);
        TestDatabase.await("the start", () -> starts("sleeper") > 0);
        signal(sleeper, "STOP");
        DB.awaitState(id, "waiting");
        try (JobWorker worker = DB.worker().handler("paused", (job, connection) -> DB.write(connection, job, "awake")).start()) {
            DB.awaitState(id, "gone");
        }
        signal(sleeper, "CONT");
        UUID next = DB.send("next");
        DB.awaitState(next, "gone");
        assertEquals("awake", DB.value("select string_agg(text, ',') from " + DB.in + "written where job = ?", id));
        assertEquals("sleeper", DB.value("select text from " + DB.in + "written where job = ?", next), "it goes on with other jobs");
    }

    private static void signal(Process process, String name) throws Exception {
        Process kill = new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start();
        assertTrue(kill.waitFor(10, TimeUnit.SECONDS));
        assertEquals(0, kill.exitValue());
    }
}
