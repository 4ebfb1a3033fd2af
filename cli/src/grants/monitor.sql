-- Who looks and changes nothing: `status`, `doctor`, `jobs list|show|errors|history`, `queues list`, `audit list`; programs that wait for results.
-- It sees payloads. A superuser may also want to run `grant pg_read_all_stats to {role}`, with which `doctor` sees the old transactions of others.
grant usage on schema {schema} to {role};
grant select on {schema}.job, {schema}.timer_job, {schema}.suspended_job, {schema}.dead_letter_job, {schema}.external_job, {schema}.jobs to {role};
grant select on {schema}.node, {schema}.rule, {schema}.permit, {schema}.unblock, {schema}.rate_log, {schema}.admission, {schema}.usage, {schema}.terminating_handler to {role};
grant select on {schema}.unique_key, {schema}.submission, {schema}.schedule, {schema}.history, {schema}.result, {schema}.progress, {schema}.audit to {role};
grant select on {schema}.worker, {schema}.worker_queue to {role};
grant select on {schema}.migration, {schema}.installation to {role};
grant execute on function {schema}.subject, {schema}.is_simple to {role};
