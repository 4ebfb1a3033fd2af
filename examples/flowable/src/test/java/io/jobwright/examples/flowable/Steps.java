package io.jobwright.examples.flowable;

import java.sql.Connection;
import java.time.OffsetDateTime;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.flowable.common.engine.impl.context.Context;
import org.flowable.engine.delegate.DelegateExecution;
import org.flowable.engine.delegate.JavaDelegate;
import org.flowable.engine.impl.util.CommandContextUtil;

/** What the service tasks of the tests do. Each notes that it began, outside of its transaction, and that it did its work, inside of it. */
public final class Steps {
    static volatile TestDatabase database;
    static volatile String process = "tests";
    private static final Map<String, AtomicInteger> RUNNING = new ConcurrentHashMap<>();
    static final AtomicInteger overlaps = new AtomicInteger();
    static final AtomicInteger most = new AtomicInteger();
    private static final AtomicInteger all = new AtomicInteger();
    static volatile int failures;
    static volatile CountDownLatch hold = new CountDownLatch(0);

    private Steps() {}

    static void reset() {
        overlaps.set(0);
        most.set(0);
        failures = 0;
        hold = new CountDownLatch(0);
    }

    static String task(String id, Class<?> step, String attributes) {
        return "<serviceTask id=\"" + id + "\" flowable:class=\"" + step.getName() + "\" " + attributes + "/>";
    }

    static String flow(String from, String to) {
        return "<sequenceFlow id=\"" + from + "-" + to + "\" sourceRef=\"" + from + "\" targetRef=\"" + to + "\"/>";
    }

    private static void run(DelegateExecution execution, Work work) {
        String instance = execution.getProcessInstanceId();
        AtomicInteger running = RUNNING.computeIfAbsent(instance, ignored -> new AtomicInteger());
        if (running.incrementAndGet() > 1) {
            overlaps.incrementAndGet();
        }
        most.accumulateAndGet(all.incrementAndGet(), Math::max);
        try {
            OffsetDateTime begun = (OffsetDateTime) toOffset(database.value(
                    "insert into starts (instance, execution, by) values (?, ?, ?) returning at", instance, execution.getId(), process));
            work.run();
            Connection connection = CommandContextUtil.getDbSqlSession(Context.getCommandContext()).getSqlSession().getConnection();
            TestDatabase.update(connection, "insert into ledger (instance, execution, step, started_at, by) values (?, ?, ?, ?, ?)", instance,
                    execution.getId(), execution.getCurrentActivityId(), begun, process);
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        } finally {
            running.decrementAndGet();
            all.decrementAndGet();
        }
    }

    private static Object toOffset(Object at) {
        return ((java.sql.Timestamp) at).toInstant().atOffset(java.time.ZoneOffset.UTC);
    }

    private interface Work {
        void run() throws Exception;
    }

    /** Takes no time. */
    public static final class Quick implements JavaDelegate {
        @Override
        public void execute(DelegateExecution execution) {
            run(execution, () -> { });
        }
    }

    /** Takes so long that others of its instance would overlap. */
    public static final class Slow implements JavaDelegate {
        @Override
        public void execute(DelegateExecution execution) {
            Object millis = execution.getVariable("millis");
            run(execution, () -> Thread.sleep(millis == null ? 20 : ((Number) millis).longValue()));
        }
    }

    /** Fails as often as the test says. */
    public static final class Failing implements JavaDelegate {
        @Override
        public void execute(DelegateExecution execution) {
            run(execution, () -> {
                if (failures > 0) {
                    failures--;
                    throw new IllegalStateException("it fails, as the test says");
                }
            });
        }
    }

    /** Waits until the test lets it go on. */
    public static final class Held implements JavaDelegate {
        @Override
        public void execute(DelegateExecution execution) {
            run(execution, () -> {
                if (!hold.await(120, java.util.concurrent.TimeUnit.SECONDS)) {
                    throw new IllegalStateException("the test did not let it go on");
                }
            });
        }
    }
}
