package io.jobwright.examples.flowable;

import java.util.UUID;

/**
 * A job that this worker holds.
 *
 * @param token the proof of it: who has it may end the job
 * @param kind what is to be done with the row of Flowable
 * @param row id of that row
 * @param group the process instance whose jobs run one after the other; null = none
 */
record TakenJob(UUID id, UUID token, String kind, String row, String group) {
    /** The row is in ACT_RU_JOB: execute it. */
    static final String EXECUTABLE = "flowable-job";
    /** The row is in ACT_RU_TIMER_JOB: move it to ACT_RU_JOB. */
    static final String TIMER = "flowable-timer";

    /** Without the token, which is not for logs. */
    @Override
    public String toString() {
        return "job " + id + " (" + kind + " " + row + ")";
    }
}
