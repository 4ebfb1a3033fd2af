package io.jobwright.examples.flowable;

import static io.jobwright.examples.flowable.Steps.flow;
import static io.jobwright.examples.flowable.Steps.task;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.flowable.common.engine.api.FlowableOptimisticLockingException;
import org.flowable.engine.ProcessEngine;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The steps of docs/migrate/flowable.md: a running engine moves to jobwright, and back. */
@Timeout(400)
class ThereAndBackTest {
    private static final TestDatabase database = new TestDatabase("200ms");
    private final List<String> instances = new ArrayList<>();

    @BeforeAll
    static void create() throws Exception {
        database.create();
        database.deploy("work", "<startEvent id=\"s\"/>" + flow("s", "a") + task("a", Steps.Slow.class, "flowable:async=\"true\"") + flow("a", "b")
                + task("b", Steps.Slow.class, "flowable:async=\"true\"") + flow("b", "t")
                + "<intermediateCatchEvent id=\"t\"><timerEventDefinition><timeDuration>PT2S</timeDuration></timerEventDefinition></intermediateCatchEvent>"
                + flow("t", "c") + task("c", Steps.Quick.class, "") + flow("c", "e") + "<endEvent id=\"e\"/>");
    }

    @AfterAll
    static void drop() throws Exception {
        database.afterAll(null);
    }

    @BeforeEach
    void clear() throws Exception {
        Steps.reset();
        database.update("truncate starts, ledger");
    }

    private void start(int count) {
        for (int i = 0; i < count; i++) {
            instances.add(database.start("work"));
        }
    }

    private void awaitExactlyOnce() throws Exception {
        for (String instance : instances) {
            database.awaitEnd(instance);
        }
        assertEquals(instances.size() * 3L, database.value("select count(*) from ledger"), "steps that were committed");
        assertEquals(instances.size() * 3L, database.value("select count(*) from (select distinct instance, step from ledger) steps"));
        assertEquals(0, Steps.overlaps.get(), "overlaps within an instance");
        assertEquals(0L, database.value("select count(*) from act_ru_deadletter_job"));
    }

    /** Flowable may fail to unlock a job at the end that one of its threads has just changed. */
    private static void close(ProcessEngine engine) throws Exception {
        TestDatabase.await("Flowable's executor to stop", () -> {
            try {
                engine.close();
                return true;
            } catch (FlowableOptimisticLockingException e) {
                return false;
            }
        });
    }

    @Test
    void there_and_back() throws Exception {
        // Before: Flowable's executor works, and rows of all sorts are there.
        ProcessEngine old = database.engine(true);
        start(20);
        TestDatabase.await("some steps", () -> (long) database.value("select count(*) from ledger") >= 5);

        // There, 1: the triggers and jobs for the rows that are there, while the old executor works.
        database.install();
        start(10);
        // 2: the old executor is switched off. 3: a worker is started.
        close(old);
        start(10);
        FlowableWorker worker = database.worker();
        start(10);
        awaitExactlyOnce();
        database.awaitNoJobs();

        // Back, 1: the workers stop.
        instances.clear();
        database.update("truncate starts, ledger");
        start(20);
        TestDatabase.await("some steps", () -> (long) database.value("select count(*) from ledger") >= 5);
        worker.close();
        assertTrue(database.jobs() > 0, "nothing was left to be moved back");
        start(10);
        // 2: Flowable's executor is switched on again. 3: the triggers and what they sent are removed.
        old = database.engine(true);
        start(10);
        database.remove();
        start(10);
        assertEquals(0, database.jobs());
        awaitExactlyOnce();
        close(old);
    }

    @Test
    void a_worker_does_not_start_beside_flowables_executor() throws Exception {
        ProcessEngine old = database.engine(true);
        try {
            assertThrows(IllegalStateException.class, () -> new FlowableWorker(old, "test", 1, java.time.Duration.ofSeconds(3)));
        } finally {
            close(old);
        }
    }
}
