-- An operator: what a monitor has, and changes by `jobs`, `queues`, `rules`, `schedules`, `nodes`. Each change adds an entry to the audit, which it can't
-- change later, but for the number of jobs.
grant insert, update, delete on {schema}.schedule to {role};
grant insert, update, delete on {schema}.job, {schema}.timer_job, {schema}.suspended_job to {role};
grant insert, update, delete on {schema}.dead_letter_job to {role};
grant update, delete on {schema}.external_job to {role};
grant insert (who, action, what, counts), update (counts) on {schema}.audit to {role};
grant insert, update, delete on {schema}.rule to {role};
grant insert on {schema}.unblock to {role};
-- What jobs and dead nodes held.
grant insert, delete on {schema}.permit to {role};
grant delete on {schema}.usage to {role};
grant insert, delete on {schema}.terminating_handler to {role};
grant insert, update on {schema}.limit_lock to {role};
grant update on {schema}.admission to {role};
grant update, delete on {schema}.node to {role};
-- If history is kept.
grant insert on {schema}.history to {role};
grant execute on function {schema}.node_locks, {schema}.node_is_idle, {schema}.lock_limits, {schema}.wake, {schema}.cancel, {schema}.is_carriable to {role};
-- From which queues roles may take jobs by SQL.
grant insert, delete on {schema}.worker_queue to {role};
