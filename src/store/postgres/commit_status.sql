-- name: find
-- Whether a job exists in any state. Needs no right on any other column, so that roles that only send may ask.
-- :id::uuid
select id from {schema}.job where id = :id
union all
select id from {schema}.timer_job where id = :id
union all
select id from {schema}.suspended_job where id = :id
union all
select id from {schema}.dead_letter_job where id = :id
union all
select id from {schema}.external_job where id = :id
