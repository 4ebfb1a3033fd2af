-- A worker by SQL: `jobwright.take`, and what ends the jobs that it took. It may take from the queues that are its rows of `worker_queue`.
grant usage on schema {schema} to {role};
grant execute on function {schema}.take, {schema}.done, {schema}.done_many, {schema}.fail, {schema}.fail_many, {schema}.later, {schema}.release, {schema}.release_many, {schema}.extend, {schema}.extend_many, {schema}.progress, {schema}.wake to {role};
--{queue} insert into {schema}.worker_queue (role_name, queue) values ({role_text}::regrole, {queue_text}) on conflict do nothing;
