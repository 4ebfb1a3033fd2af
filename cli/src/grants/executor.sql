-- An executor, which may send too.
grant usage on schema {schema} to {role};
grant usage on sequence {schema}.job_seq to {role};
grant usage, update on sequence {schema}.shared_cursor_0, {schema}.shared_cursor_1, {schema}.shared_cursor_2, {schema}.shared_cursor_3, {schema}.shared_cursor_4, {schema}.shared_cursor_5, {schema}.shared_cursor_6, {schema}.shared_cursor_7, {schema}.shared_cursor_8, {schema}.shared_cursor_9, {schema}.shared_cursor_10, {schema}.shared_cursor_11, {schema}.shared_cursor_12, {schema}.shared_cursor_13, {schema}.shared_cursor_14, {schema}.shared_cursor_15 to {role};
grant select on {schema}.migration, {schema}.installation to {role};
grant select, insert, update, delete on {schema}.job, {schema}.timer_job, {schema}.external_job, {schema}.node to {role};
grant select, insert, update, delete on {schema}.submission to {role};
grant select, insert, update, delete on {schema}.unique_key to {role};
grant select, update on {schema}.schedule to {role};
grant select (id), insert on {schema}.dead_letter_job to {role};
grant select (id) on {schema}.suspended_job to {role};
grant select on {schema}.rule, {schema}.worker to {role};
grant select, insert, update, delete on {schema}.permit, {schema}.usage, {schema}.unblock, {schema}.rate_log, {schema}.terminating_handler to {role};
grant select, insert, update on {schema}.limit_lock to {role};
grant select, update on {schema}.admission to {role};
grant select, insert, update, delete on {schema}.history, {schema}.result, {schema}.progress to {role};
-- What its statements call. Some of these functions run with the rights of the schema's owner.
grant execute on function {schema}.send, {schema}.wake, {schema}.is_carriable, {schema}.decide_ids, {schema}.take_unique, {schema}.try_unique, {schema}.key_holder, {schema}.remove_replaced to {role};
grant execute on function {schema}.node_locks, {schema}.hold_node, {schema}.refuse_node, {schema}.node_is_idle to {role};
grant execute on function {schema}.subject, {schema}.is_simple, {schema}.lock_limits, {schema}.allowance, {schema}.log_starts, {schema}.key_of to {role};
-- Queues of external workers: the key of the tokens that they report with. To nobody else.
--{external} grant select on {schema}.report_key to {role};
-- To forget what is older than `history.audit` and `history.dead_letters`.
--{retention} grant select (id, at), delete on {schema}.audit to {role};
--{retention} grant select, update, delete on {schema}.dead_letter_job to {role};
-- To put and delete schedules.
--{schedules} grant insert, delete on {schema}.schedule to {role};
