package io.jobwright.examples.flowable;

import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Objects;
import javax.sql.DataSource;
import org.flowable.common.engine.api.delegate.event.AbstractFlowableEventListener;
import org.flowable.common.engine.api.delegate.event.FlowableEngineEventType;
import org.flowable.common.engine.api.delegate.event.FlowableEntityEvent;
import org.flowable.common.engine.api.delegate.event.FlowableEvent;
import org.flowable.common.engine.api.delegate.event.FlowableEventListener;
import org.flowable.common.engine.impl.cfg.TransactionState;
import org.flowable.common.engine.impl.context.Context;
import org.flowable.common.engine.impl.interceptor.CommandContext;
import org.flowable.engine.ProcessEngine;
import org.flowable.engine.RuntimeService;
import org.flowable.job.service.impl.persistence.entity.AbstractRuntimeJobEntity;
import org.flowable.job.service.impl.persistence.entity.JobEntity;

/**
 * Tells jobwright of new rows after their commit. Each engine that starts or continues instances should have it; the jobs of one without it
 * wait for the next poll of an executor.
 *
 * <p>A trigger can't notify, because a {@code NOTIFY} in the engine's transactions would make them commit one after the other. So a thread
 * notifies in transactions of its own, once for all commits of some milliseconds.
 */
public final class WakeAfterCommit implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(WakeAfterCommit.class.getName());
    private static final Duration PAUSE = Duration.ofMillis(5);
    /** Attributes of a worker's transaction: the group of its job, and whether the next job that it took is of that group too. */
    static final String GROUP = "jobwright.group";
    static final String GROUP_GOES_ON = "jobwright.groupGoesOn";

    private final RuntimeService runtimeService;
    private final DataSource dataSource;
    private final FlowableEventListener created = new Created();
    private final Bell committed = new Bell();
    private final Thread thread = new Thread(this::wake, "jobwright-wake");
    private volatile boolean stopping;

    /** From now on each commit of this engine that inserted a job or a timer is told. */
    public WakeAfterCommit(ProcessEngine engine) {
        dataSource = engine.getProcessEngineConfiguration().getDataSource();
        runtimeService = engine.getRuntimeService();
        runtimeService.addEventListener(created, FlowableEngineEventType.ENTITY_CREATED);
        thread.setDaemon(true);
        thread.start();
    }

    private final class Created extends AbstractFlowableEventListener {
        @Override
        public void onEvent(FlowableEvent event) {
            if (event instanceof FlowableEntityEvent created && created.getEntity() instanceof AbstractRuntimeJobEntity row) {
                CommandContext command = Context.getCommandContext();
                boolean isNext = row instanceof JobEntity && row.isExclusive() && Objects.equals(row.getProcessInstanceId(), command.getAttribute(GROUP));
                String once = isNext ? "jobwright.next" : "jobwright.new";
                if (command.getAttribute(once) == null) {
                    command.addAttribute(once, true);
                    Context.getTransactionContext().addTransactionListener(TransactionState.COMMITTED, ignored -> {
                        if (!isNext || command.getAttribute(GROUP_GOES_ON) == null) {
                            committed.ring();
                        }
                    });
                }
            }
        }

        @Override
        public boolean isFailOnException() {
            return false;
        }
    }

    private void wake() {
        try {
            while (!stopping) {
                committed.await(Duration.ofDays(1));
                try (Connection connection = dataSource.getConnection()) {
                    connection.setAutoCommit(true);
                    Functions.wake(connection);
                } catch (SQLException e) {
                    // The jobs are found by a poll.
                    LOG.log(Level.WARNING, "no notification of new jobs of Flowable could be sent", e);
                }
                Thread.sleep(PAUSE.toMillis());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        runtimeService.removeEventListener(created);
        stopping = true;
        thread.interrupt();
    }
}
