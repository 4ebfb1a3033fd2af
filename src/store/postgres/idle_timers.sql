-- name: park_timer
-- The last resort for a timer that can neither be made to wait nor be made a dead letter: it is due at the end of all times, in a queue that is
-- named after its old one and which claims leave alone. Its content is not touched (see `park_unreadable`).
-- :id::uuid, :seq::int8
update {schema}.timer_job t
set queue  = 'unreadable:' || case when octet_length(t.queue) <= 89 then t.queue else left(t.queue, 22) end,
    due_at = '9999-01-01 00:00:00+00'::timestamptz,
    version = t.version::int8 & 2147483647::int8,
    {fit_numbers:t}
where {briefly} and t.id = :id and t.seq = :seq and t.queue not like 'unreadable:%'
returning t.id

-- name: dead_letter_timers
-- Makes dead letters of timers that can't be made to wait, each only if it is still the row that was examined (its `seq`). No attempt is spent.
-- :ids::uuid[], :seqs::int8[], :reasons::text[], :node::int8
with gone as (
    delete from {schema}.timer_job t
    where {briefly}
      and t.id = any (:ids::uuid[])
      and t.seq = (:seqs::int8[])[array_position(:ids::uuid[], t.id)]
    returning t.*, (:reasons::text[])[array_position(:ids::uuid[], t.id)] as why, 0 as cost
),
{buried}
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, 'dead', attempts, created_at, :node::int8, fit ->> 'tenant'::text, why from buried
--{failed} )
select id from gone
