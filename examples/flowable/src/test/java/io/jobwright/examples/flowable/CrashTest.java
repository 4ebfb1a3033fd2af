package io.jobwright.examples.flowable;

import static io.jobwright.examples.flowable.Steps.flow;
import static io.jobwright.examples.flowable.Steps.task;
import static io.jobwright.examples.flowable.TestDatabase.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Workers that are killed, or stopped for longer than their leases. */
@Timeout(400)
class CrashTest {
    private static final Duration LEASE = Duration.ofSeconds(4);

    @RegisterExtension
    static final TestDatabase database = new TestDatabase("200ms");

    private final List<WorkerProcess> processes = new ArrayList<>();

    @BeforeEach
    void clear() throws Exception {
        database.update("truncate starts, ledger");
    }

    @AfterEach
    void stop() throws Exception {
        for (WorkerProcess process : processes) {
            process.kill();
        }
    }

    private WorkerProcess worker(String name) throws Exception {
        WorkerProcess process = WorkerProcess.start(database.name, name, LEASE, 4);
        processes.add(process);
        await("worker " + name + " to be ready", () -> (long) database.value("select count(*) from starts where by = ?", "ready " + name) == 1);
        return process;
    }

    private static final String UNENDED = " from starts s where s.by = ? and not exists (select from ledger l where l.execution = s.execution)";

    @Test
    void jobs_of_a_killed_worker_start_again_within_one_and_a_half_leases() throws Exception {
        database.deploy("fan", "<startEvent id=\"s\"/>" + flow("s", "m") + "<serviceTask id=\"m\" flowable:class=\"" + Steps.Slow.class.getName()
                + "\" flowable:async=\"true\"><multiInstanceLoopCharacteristics isSequential=\"false\"><loopCardinality>10</loopCardinality>"
                + "</multiInstanceLoopCharacteristics></serviceTask>" + flow("m", "e") + "<endEvent id=\"e\"/>");
        WorkerProcess killed = worker("killed");
        worker("other");
        List<String> instances = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            instances.add(database.engine.getRuntimeService().createProcessInstanceBuilder().processDefinitionKey("fan").variable("millis", 150).start().getId());
        }
        await("the worker to be in the middle of jobs", () -> (long) database.value("select count(*) from ledger where by = 'killed'") >= 8
                && (long) database.value("select count(*)" + UNENDED, killed.name) >= 2);
        killed.kill();
        Object at = database.value("select clock_timestamp()");
        database.update("drop table if exists interrupted");
        database.update("create table interrupted as select s.*" + UNENDED, killed.name);
        long interrupted = (long) database.value("select count(*) from interrupted");
        assertTrue(interrupted > 0, "no job was interrupted");
        for (String instance : instances) {
            database.awaitEnd(instance);
        }
        String again = " from interrupted i cross join lateral (select min(s.at) as at from starts s where s.execution = i.execution and s.by = 'other') o";
        assertEquals(interrupted, database.value("select count(o.at)" + again), "interrupted jobs that were started again");
        double slowest = ((Number) database.value("select extract(epoch from max(o.at) - ?)::float8" + again, at)).doubleValue();
        assertTrue(slowest <= LEASE.toMillis() * 1.5 / 1000, "an interrupted job started " + slowest + " s after the kill; the lease is " + LEASE);
        assertEquals(160L, database.value("select count(*) from ledger"), "jobs that were committed");
        assertEquals(160L, database.value("select count(distinct execution) from ledger"), "different jobs that were committed");
        assertEquals(0L, database.value("select count(*) from ledger a join ledger b on a.instance = b.instance and a.ctid < b.ctid"
                + " and a.started_at < b.at and b.started_at < a.at"), "overlaps within an instance");
        assertEquals(0L, database.value("select count(*) from starts a join starts b on a.execution = b.execution and a.at < b.at"
                + " where b.at < a.at + ?::interval", LEASE.toMillis() - 1000 + " milliseconds"), "second starts under a lease");
        database.awaitNoJobs();
    }

    @Test
    void a_worker_that_stood_still_for_longer_than_its_lease_commits_nothing() throws Exception {
        database.deploy("slow", "<startEvent id=\"s\"/>" + flow("s", "a") + task("a", Steps.Slow.class, "flowable:async=\"true\"") + flow("a", "e")
                + "<endEvent id=\"e\"/>");
        WorkerProcess stopped = worker("stopped");
        String instance = database.engine.getRuntimeService().createProcessInstanceBuilder().processDefinitionKey("slow").variable("millis", 4000).start().getId();
        await("the job to start", () -> (long) database.value("select count(*) from starts where instance = ?", instance) == 1);
        stopped.signal("STOP");
        WorkerProcess other = worker("other");
        await("the job to start elsewhere", () -> (long) database.value("select count(*) from starts where by = 'other'") == 1);
        // It could commit now, before the other one, and Flowable would not mind.
        stopped.signal("CONT");
        database.awaitEnd(instance);
        other.kill();
        // It goes on with other jobs, so it has found out.
        String next = database.start("slow");
        database.awaitEnd(next);
        assertTrue(stopped.isAlive());
        assertEquals("other", database.value("select string_agg(by, ',') from ledger where instance = ?", instance));
        assertEquals("stopped", database.value("select string_agg(by, ',') from ledger where instance = ?", next));
        assertEquals(0L, database.value("select count(*) from act_ru_timer_job") , "retries of Flowable");
        database.awaitNoJobs();
    }
}
