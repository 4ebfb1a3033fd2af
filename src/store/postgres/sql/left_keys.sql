-- Unique keys whose jobs are in no table, of some thousands from a random place on: keys are hashes, so each is looked at some time. Triggers
-- release a key with its job, but not where a table was truncated, restored alone, or written with triggers off. Such a key blocks no sender. The
-- version of the row (xmin) is that which was judged: a sender may be taking the key over.
-- :from::bytea, :limit::int8
select key, xmin::text as version
from (select key, xmin, job_id, hold from {schema}.unique_key where key >= :from order by key limit :limit) u
where hold <> 'period'
  and (select j.id from {schema}.job j where j.id = u.job_id limit 1) is null
  and (select j.id from {schema}.timer_job j where j.id = u.job_id limit 1) is null
  and (select j.id from {schema}.suspended_job j where j.id = u.job_id limit 1) is null
  and (select j.id from {schema}.dead_letter_job j where j.id = u.job_id limit 1) is null
  and (select j.id from {schema}.external_job j where j.id = u.job_id limit 1) is null
