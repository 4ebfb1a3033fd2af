-- A sender: `jobwright.send`, triggers, the library, `jobwright send`.
grant usage on schema {schema} to {role};
grant usage on sequence {schema}.job_seq to {role};
grant insert on {schema}.job, {schema}.timer_job to {role};
grant execute on function {schema}.send, {schema}.wake, {schema}.is_carriable to {role};
-- Given ids, and delays.
grant select (id, seq, created_at) on {schema}.job to {role};
grant select (id, seq, created_at) on {schema}.timer_job to {role};
grant select (id) on {schema}.suspended_job, {schema}.dead_letter_job, {schema}.external_job to {role};
grant execute on function {schema}.decide_ids to {role};
-- Whether a queue is full.
grant select on {schema}.rule to {role};
grant select (queue, lock_owner, blocked_on) on {schema}.job to {role};
-- Groups.
grant insert on {schema}.unblock to {role};
-- Whether the schema is complete.
grant select on {schema}.migration to {role};
-- Unique jobs. With this right it can also change the keys of others, and remove waiting jobs and timers that hold one.
--{unique} grant select, insert, update on {schema}.unique_key to {role};
--{unique} grant execute on function {schema}.take_unique, {schema}.try_unique, {schema}.key_holder, {schema}.remove_replaced to {role};
-- With this right it can cancel any job.
--{cancel} grant execute on function {schema}.cancel to {role};
