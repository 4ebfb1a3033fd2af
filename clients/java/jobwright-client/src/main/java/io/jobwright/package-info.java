/**
 * Sends jobs of jobwright, and works, by SQL functions over JDBC. {@link io.jobwright.Jobs} sends in the caller's transaction;
 * {@link io.jobwright.JobWorker} runs jobs; {@link io.jobwright.SqlJobs} has the single functions.
 */
package io.jobwright;
