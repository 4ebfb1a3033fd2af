package io.jobwright.examples.flowable;

import static io.jobwright.examples.flowable.Steps.flow;
import static io.jobwright.examples.flowable.Steps.task;
import static io.jobwright.examples.flowable.TestDatabase.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.flowable.job.api.Job;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Rows of ACT_RU_TIMER_JOB: timers, and retries of Flowable's. */
@Timeout(400)
class TimersTest {
    @RegisterExtension
    static final TestDatabase database = new TestDatabase("100ms");

    private FlowableWorker worker;

    @BeforeEach
    void start() {
        Steps.reset();
        worker = database.worker();
    }

    @AfterEach
    void stop() throws Exception {
        worker.close();
        database.update("drop trigger if exists full_table on act_ru_timer_job");
    }

    private static String timer(String duration) {
        return "<timerEventDefinition><timeDuration>" + duration + "</timeDuration></timerEventDefinition>";
    }

    private static String boundary(String id, String task, String timer, boolean interrupting) {
        return "<boundaryEvent id=\"" + id + "\" attachedToRef=\"" + task + "\" cancelActivity=\"" + interrupting + "\">" + timer + "</boundaryEvent>";
    }

    private static long started(String instance) throws Exception {
        return (long) database.value("select count(*) from starts where instance = ?", instance);
    }

    private static String state(String kind) throws Exception {
        return (String) database.value("select string_agg(state, ',') from jobwright.jobs where kind = ?", kind);
    }

    @Test
    void a_timer_is_moved_when_it_is_due_and_executed() throws Exception {
        database.deploy("timer", "<startEvent id=\"s\"/>" + flow("s", "t") + "<intermediateCatchEvent id=\"t\">" + timer("PT1S") + "</intermediateCatchEvent>"
                + flow("t", "a") + task("a", Steps.Quick.class, "") + flow("a", "e") + "<endEvent id=\"e\"/>");
        String instance = database.start("timer");
        assertEquals("timer", state("flowable-timer"));
        database.awaitEnd(instance);
        double late = ((Number) database.value("select extract(epoch from l.at - h.start_time_::timestamptz)::float8 from ledger l"
                + " join act_hi_procinst h on h.id_ = l.instance where l.instance = ?", instance)).doubleValue();
        assertTrue(late >= 1, "it ran " + late + " s after the start of its instance");
        database.awaitNoJobs();
    }

    @Test
    void a_cycle_repeats() throws Exception {
        database.deploy("cycle", "<startEvent id=\"s\"/>" + flow("s", "u") + "<userTask id=\"u\"/>"
                + boundary("b", "u", "<timerEventDefinition><timeCycle>R3/PT1S</timeCycle></timerEventDefinition>", false)
                + flow("b", "a") + task("a", Steps.Quick.class, ""));
        String instance = database.start("cycle");
        await("three repetitions", () -> started(instance) == 3);
        database.awaitNoJobs();
    }

    @Test
    void the_timer_of_a_deleted_instance_is_cancelled() throws Exception {
        database.deploy("long", "<startEvent id=\"s\"/>" + flow("s", "t") + "<intermediateCatchEvent id=\"t\">" + timer("P90D") + "</intermediateCatchEvent>");
        String instance = database.start("long");
        assertEquals(1, database.jobs());
        database.engine.getRuntimeService().deleteProcessInstance(instance, "test");
        assertEquals(0, database.jobs());
    }

    @Test
    void a_timer_of_a_task_that_a_worker_ends_is_cancelled() throws Exception {
        database.deploy("boundary", "<startEvent id=\"s\"/>" + flow("s", "a") + "<subProcess id=\"a\"><startEvent id=\"is\"/>" + flow("is", "b")
                + task("b", Steps.Quick.class, "flowable:async=\"true\"") + "</subProcess>" + boundary("t", "a", timer("P90D"), true) + flow("a", "u")
                + "<userTask id=\"u\"/>");
        String instance = database.start("boundary");
        await("the task to be over", () -> database.engine.getTaskService().createTaskQuery().processInstanceId(instance).count() == 1);
        database.awaitNoJobs();
        database.engine.getRuntimeService().deleteProcessInstance(instance, "test");
    }

    @Test
    void a_timer_that_a_person_moves_runs_once() throws Exception {
        database.deploy("moved", "<startEvent id=\"s\"/>" + flow("s", "t") + "<intermediateCatchEvent id=\"t\">" + timer("P90D") + "</intermediateCatchEvent>"
                + flow("t", "a") + task("a", Steps.Quick.class, "") + flow("a", "e") + "<endEvent id=\"e\"/>");
        String instance = database.start("moved");
        Job timer = database.engine.getManagementService().createTimerJobQuery().processInstanceId(instance).singleResult();
        database.engine.getManagementService().moveTimerToExecutableJob(timer.getId());
        database.awaitEnd(instance);
        assertEquals(1, started(instance));
        database.awaitNoJobs();
    }

    @Test
    void flowable_counts_retries_and_jobwright_none() throws Exception {
        Steps.failures = 2;
        database.deploy("retries", "<startEvent id=\"s\"/>" + flow("s", "a")
                + "<serviceTask id=\"a\" flowable:class=\"" + Steps.Failing.class.getName() + "\" flowable:async=\"true\"><extensionElements>"
                + "<flowable:failedJobRetryTimeCycle>R5/PT1S</flowable:failedJobRetryTimeCycle></extensionElements></serviceTask>" + flow("a", "e")
                + "<endEvent id=\"e\"/>");
        String instance = database.start("retries");
        await("a retry to wait", () -> database.engine.getManagementService().createTimerJobQuery().processInstanceId(instance).count() == 1);
        Job retry = database.engine.getManagementService().createTimerJobQuery().processInstanceId(instance).singleResult();
        assertEquals(4, retry.getRetries());
        assertEquals("it fails, as the test says", retry.getExceptionMessage());
        assertEquals(null, state("flowable-job"));
        assertEquals("timer", state("flowable-timer"));
        database.awaitEnd(instance);
        assertEquals(3, started(instance));
        assertEquals(1L, database.value("select count(*) from ledger where instance = ?", instance));
        database.awaitNoJobs();
    }

    @Test
    void a_job_without_retries_left_is_a_dead_letter_of_flowable() throws Exception {
        Steps.failures = 1;
        database.deploy("dead", "<startEvent id=\"s\"/>" + flow("s", "a")
                + "<serviceTask id=\"a\" flowable:class=\"" + Steps.Failing.class.getName() + "\" flowable:async=\"true\"><extensionElements>"
                + "<flowable:failedJobRetryTimeCycle>R1/PT1S</flowable:failedJobRetryTimeCycle></extensionElements></serviceTask>" + flow("a", "e")
                + "<endEvent id=\"e\"/>");
        String instance = database.start("dead");
        await("the dead letter", () -> database.engine.getManagementService().createDeadLetterJobQuery().processInstanceId(instance).count() == 1);
        database.awaitNoJobs();
        Job dead = database.engine.getManagementService().createDeadLetterJobQuery().processInstanceId(instance).singleResult();
        database.engine.getManagementService().moveDeadLetterJobToExecutableJob(dead.getId(), 3);
        database.awaitEnd(instance);
        assertEquals(2, started(instance));
        database.awaitNoJobs();
    }

    @Test
    void a_failure_that_flowable_can_not_record_is_left_to_jobwright() throws Exception {
        worker.close();
        database.update("create or replace function full_table() returns trigger language plpgsql as"
                + " $$ begin raise exception 'the table is full, as the test says'; end $$");
        database.update("create trigger full_table before insert on act_ru_timer_job for each row execute function full_table()");
        Steps.failures = 1;
        database.deploy("unrecorded", "<startEvent id=\"s\"/>" + flow("s", "a") + task("a", Steps.Failing.class, "flowable:async=\"true\"")
                + flow("a", "e") + "<endEvent id=\"e\"/>");
        String instance = database.start("unrecorded");
        // As after nine attempts.
        database.update("update jobwright.job set max_attempts = 1");
        worker = database.worker();
        await("the dead letter", () -> "dead".equals(state("flowable-job")));
        assertEquals(1, database.engine.getManagementService().createJobQuery().processInstanceId(instance).count());
        database.update("drop trigger full_table on act_ru_timer_job");
        database.jobwright("jobs", "retry", database.value("select id from jobwright.jobs").toString());
        database.awaitEnd(instance);
        database.awaitNoJobs();
    }

    @Test
    void a_timer_has_the_tenant_of_its_row() throws Exception {
        database.deploy("tenant", "<startEvent id=\"s\"/>" + flow("s", "t") + "<intermediateCatchEvent id=\"t\">" + timer("PT1H") + "</intermediateCatchEvent>",
                "acme");
        String instance = database.engine.getRuntimeService().startProcessInstanceByKeyAndTenantId("tenant", "acme").getId();
        assertEquals("acme", database.value("select options ->> 'tenant' from jobwright.jobs where kind = 'flowable-timer'"));
        database.engine.getRuntimeService().deleteProcessInstance(instance, "test");
    }
}
