package io.jobwright.examples.flowable;

import static io.jobwright.examples.flowable.Steps.flow;
import static io.jobwright.examples.flowable.Steps.task;
import static io.jobwright.examples.flowable.TestDatabase.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Rows of ACT_RU_JOB. The executor hardly ever looks by itself, so all that is not announced would be late. */
@Timeout(400)
class JobsTest {
    @RegisterExtension
    static final TestDatabase database = new TestDatabase("10m");

    private WakeAfterCommit wakes;
    private FlowableWorker worker;

    @BeforeEach
    void start() {
        Steps.reset();
        wakes = new WakeAfterCommit(database.engine);
        worker = database.worker();
    }

    @AfterEach
    void stop() {
        worker.close();
        wakes.close();
    }

    private static long written(String instance) throws Exception {
        return (long) database.value("select count(*) from ledger where instance = ?", instance);
    }

    private static String loop(int times) {
        return "<multiInstanceLoopCharacteristics isSequential=\"false\"><loopCardinality>" + times + "</loopCardinality></multiInstanceLoopCharacteristics>";
    }

    private static String many(String id, Class<?> step, String attributes, int times) {
        return "<serviceTask id=\"" + id + "\" flowable:class=\"" + step.getName() + "\" " + attributes + ">" + loop(times) + "</serviceTask>";
    }

    @Test
    void asynchronous_continuations_follow_one_another_without_a_poll() throws Exception {
        StringBuilder chain = new StringBuilder("<startEvent id=\"s\"/>" + flow("s", "t1"));
        for (int i = 1; i <= 5; i++) {
            chain.append(task("t" + i, Steps.Quick.class, "flowable:async=\"true\"")).append(flow("t" + i, i == 5 ? "e" : "t" + (i + 1)));
        }
        database.deploy("chain", chain + "<endEvent id=\"e\"/>");
        String instance = database.start("chain");
        database.awaitEnd(instance);
        assertEquals(5, written(instance));
        database.awaitNoJobs();
    }

    @Test
    void an_instance_that_is_rolled_back_leaves_no_job() throws Exception {
        database.deploy("rolled", "<startEvent id=\"s\"/>" + flow("s", "f") + "<parallelGateway id=\"f\"/>" + flow("f", "a") + flow("f", "b")
                + task("a", Steps.Quick.class, "flowable:async=\"true\"") + task("b", Steps.Failing.class, ""));
        Steps.failures = 1;
        org.junit.jupiter.api.Assertions.assertThrows(IllegalStateException.class, () -> database.start("rolled"));
        assertEquals(0, database.jobs());
    }

    @Test
    void a_task_is_left_asynchronously() throws Exception {
        database.deploy("leave", "<startEvent id=\"s\"/>" + flow("s", "a")
                + task("a", Steps.Quick.class, "flowable:async=\"true\" flowable:asyncLeave=\"true\"") + flow("a", "m")
                + many("m", Steps.Quick.class, "flowable:async=\"true\" flowable:asyncLeave=\"true\"", 10) + flow("m", "e") + "<endEvent id=\"e\"/>");
        String instance = database.start("leave");
        database.awaitEnd(instance);
        assertEquals(11, written(instance));
        database.awaitNoJobs();
    }

    @Test
    void exclusive_jobs_of_an_instance_never_overlap() throws Exception {
        database.deploy("fan", "<startEvent id=\"s\"/>" + flow("s", "m") + many("m", Steps.Slow.class, "flowable:async=\"true\"", 40)
                + flow("m", "e") + "<endEvent id=\"e\"/>");
        List<String> instances = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            instances.add(database.start("fan"));
        }
        for (String instance : instances) {
            database.awaitEnd(instance);
            assertEquals(40, written(instance));
        }
        assertEquals(0, Steps.overlaps.get());
        assertTrue(Steps.most.get() > 1, "instances did not run side by side");
        assertEquals(0L, database.value("select count(*) from act_ru_deadletter_job"));
        database.awaitNoJobs();
    }

    @Test
    void jobs_that_are_not_exclusive_run_side_by_side() throws Exception {
        StringBuilder tasks = new StringBuilder("<startEvent id=\"s\"/>" + flow("s", "f") + "<parallelGateway id=\"f\"/>");
        for (int i = 0; i < 4; i++) {
            tasks.append(flow("f", "t" + i)).append(task("t" + i, Steps.Slow.class, "flowable:async=\"true\" flowable:exclusive=\"false\""));
        }
        database.deploy("shared", tasks.toString());
        String instance = database.engine.getRuntimeService().createProcessInstanceBuilder().processDefinitionKey("shared").variable("millis", 300).start().getId();
        await("all to have run", () -> written(instance) == 4);
        assertTrue(Steps.overlaps.get() > 0, "none overlapped");
    }

    @Test
    void a_suspended_instance_goes_on_when_it_is_activated() throws Exception {
        worker.close();
        database.deploy("suspended", "<startEvent id=\"s\"/>" + flow("s", "a") + task("a", Steps.Quick.class, "flowable:async=\"true\"") + flow("a", "e")
                + "<endEvent id=\"e\"/>");
        String instance = database.start("suspended");
        database.engine.getRuntimeService().suspendProcessInstanceById(instance);
        worker = database.worker();
        // Its job finds no row.
        database.awaitNoJobs();
        assertEquals(0, written(instance));
        database.engine.getRuntimeService().activateProcessInstanceById(instance);
        database.awaitEnd(instance);
        assertEquals(1, written(instance));
    }

    @Test
    void a_waiting_job_of_a_deleted_instance_executes_nothing() throws Exception {
        worker.close();
        database.deploy("deleted", "<startEvent id=\"s\"/>" + flow("s", "a") + task("a", Steps.Quick.class, "flowable:async=\"true\""));
        String instance = database.start("deleted");
        database.engine.getRuntimeService().deleteProcessInstance(instance, "test");
        worker = database.worker();
        database.awaitNoJobs();
        assertEquals(0, written(instance));
    }

    @Test
    void a_job_whose_instance_is_deleted_while_it_runs_commits_nothing() throws Exception {
        Steps.hold = new java.util.concurrent.CountDownLatch(1);
        database.deploy("deleted-running", "<startEvent id=\"s\"/>" + flow("s", "a") + task("a", Steps.Held.class, "flowable:async=\"true\""));
        String instance = database.start("deleted-running");
        await("the job to start", () -> (long) database.value("select count(*) from starts where instance = ?", instance) == 1);
        database.engine.getRuntimeService().deleteProcessInstance(instance, "test");
        Steps.hold.countDown();
        database.awaitNoJobs();
        assertEquals(0, written(instance));
        assertFalse(database.isRunning(instance));
    }

    @Test
    void a_job_has_the_tenant_of_its_row() throws Exception {
        worker.close();
        database.deploy("tenant", "<startEvent id=\"s\"/>" + flow("s", "a") + task("a", Steps.Quick.class, "flowable:async=\"true\""), "acme");
        String instance = database.engine.getRuntimeService().startProcessInstanceByKeyAndTenantId("tenant", "acme").getId();
        assertEquals("acme", database.value("select options ->> 'tenant' from jobwright.jobs where options ->> 'group' = ?", instance));
        worker = database.worker();
        database.awaitEnd(instance);
        assertEquals(1, written(instance));
    }
}
