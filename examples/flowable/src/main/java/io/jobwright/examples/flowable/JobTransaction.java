package io.jobwright.examples.flowable;

import java.sql.Connection;
import java.sql.SQLException;
import org.flowable.common.engine.api.FlowableException;
import org.flowable.common.engine.api.delegate.event.FlowableEngineEventType;
import org.flowable.common.engine.impl.interceptor.Command;
import org.flowable.common.engine.impl.interceptor.CommandContext;
import org.flowable.common.engine.impl.interceptor.CommandContextCloseListener;
import org.flowable.engine.impl.cfg.ProcessEngineConfigurationImpl;
import org.flowable.engine.impl.util.CommandContextUtil;
import org.flowable.job.api.JobNotFoundException;
import org.flowable.job.service.JobServiceConfiguration;
import org.flowable.job.service.event.impl.FlowableJobEventBuilder;
import org.flowable.job.service.impl.cmd.ExecuteAsyncJobCmd;
import org.flowable.job.service.impl.cmd.MoveTimerToExecutableJobCmd;
import org.flowable.job.service.impl.persistence.entity.JobEntity;

/**
 * A transaction of Flowable that also ends a job of jobwright and takes the next one.
 *
 * <p>The end comes when Flowable has written everything and is about to commit. So a job that was inserted meanwhile, and is the next of its
 * instance, is taken at once. If the job is no longer this worker's, the end fails, and with it the commit.
 */
final class JobTransaction {
    private final ProcessEngineConfigurationImpl engine;
    private final JobServiceConfiguration jobs;
    private final Functions functions;

    JobTransaction(ProcessEngineConfigurationImpl engine, Functions functions) {
        this.engine = engine;
        this.functions = functions;
        jobs = engine.getJobServiceConfiguration();
    }

    /** Executes the row of a job, or moves it if it is a timer. If there is no such row any more, the job has nothing to do. */
    TakenJob execute(TakenJob job, boolean takesNext) {
        return commit(job, takesNext, switch (job.kind()) {
            // Not ManagementService.executeJob: that records a failure in a second transaction while this one is open still, and does so for a
            // worker that is late as well.
            case TakenJob.EXECUTABLE -> new ExecuteAsyncJobCmd(job.row(), jobs);
            case TakenJob.TIMER -> context -> move(context, job);
            default -> throw new FlowableException(job + " is of no kind that this worker knows: only the triggers should send to its queue");
        });
    }

    private Object move(CommandContext context, TakenJob job) {
        try {
            Functions.moving(connection(context), job);
            return new MoveTimerToExecutableJobCmd(job.row(), jobs).execute(context);
        } catch (JobNotFoundException gone) {
            return null;
        } catch (SQLException e) {
            throw new FlowableException("the database could not be told which timer is moved", e);
        }
    }

    /** Lets Flowable count a failure: it moves the row to its timers with one retry fewer, or to its dead letters. For jobwright, the job has ended. */
    TakenJob recordFailure(TakenJob job, Throwable thrown, boolean takesNext) {
        return commit(job, takesNext, context -> {
            JobEntity row = jobs.getJobEntityManager().findById(job.row());
            if (row != null) {
                jobs.getFailedJobCommandFactory().getCommand(job.row(), thrown).execute(context);
                if (jobs.getEventDispatcher() != null && jobs.getEventDispatcher().isEnabled()) {
                    jobs.getEventDispatcher().dispatchEvent(
                            FlowableJobEventBuilder.createEntityExceptionEvent(FlowableEngineEventType.JOB_EXECUTION_FAILURE, row, thrown), jobs.getEngineName());
                }
            }
            return null;
        });
    }

    private TakenJob commit(TakenJob job, boolean takesNext, Command<?> work) {
        End end = new End(job, takesNext);
        engine.getCommandExecutor().execute(context -> {
            context.addCloseListener(end);
            context.addAttribute(WakeAfterCommit.GROUP, job.group());
            return work.execute(context);
        });
        return end.next;
    }

    private static Connection connection(CommandContext context) {
        return CommandContextUtil.getDbSqlSession(context).getSqlSession().getConnection();
    }

    private final class End implements CommandContextCloseListener {
        private final TakenJob job;
        private final boolean takesNext;
        private TakenJob next;

        private End(TakenJob job, boolean takesNext) {
            this.job = job;
            this.takesNext = takesNext;
        }

        @Override
        public void closing(CommandContext context) {}

        /** Everything is written, and the commit follows. */
        @Override
        public void afterSessionsFlush(CommandContext context) {
            try {
                if (takesNext) {
                    next = functions.doneAndTake(connection(context), job);
                    if (next != null && next.group() != null && next.group().equals(job.group())) {
                        context.addAttribute(WakeAfterCommit.GROUP_GOES_ON, true);
                    }
                } else {
                    Functions.done(connection(context), job);
                }
            } catch (SQLException e) {
                throw new FlowableException(job + " could not be ended", e);
            }
        }

        /**
         * Flowable rolls back only if it has written something itself, and otherwise commits when it closes the connection: also what a delegate
         * wrote on it.
         */
        @Override
        public void closeFailure(CommandContext context) {
            try {
                connection(context).rollback();
            } catch (SQLException e) {
                throw new FlowableException(job + " could not be rolled back", e);
            }
        }

        @Override
        public void closed(CommandContext context) {}

        /** Before the listener that commits or rolls back. */
        @Override
        public Integer order() {
            return 9_000;
        }

        @Override
        public boolean multipleAllowed() {
            return false;
        }
    }
}
