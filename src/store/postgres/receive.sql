-- name: submission_digests
-- The recorded digests of ids that were submitted before. Runs after `receive`, so that it sees what that statement waited for.
-- :ids::uuid[]
select id, digest from {schema}.submission where id = any (:ids::uuid[])

-- name: receive
-- First submissions: records each with its digest, and stores its job (as `insert_any` does) in the same statement.
-- The ids are locked in order, so two batches that overlap never deadlock. The second one waits for the first to commit, and stores nothing
-- twice. The recorded digests of ids that are not new must be read by the next statement: this one can't see what was committed while it
-- waited.
-- An existing job of that id (sent without the broker) stays as it is. If it has another kind or queue, the submission is not recorded either: it is
-- refused, unless it was recorded before.
-- It waits for a lock for at most :lock_timeout, and is then tried without the message whose id another transaction has not decided about
-- (store/postgres/receive.rs).
-- {content_arrays}, :delays_us::int8[], :due_times::timestamptz[], :given::bool[], :holds_us::int8[], :digests::bytea[],
-- :options::jsonb[], :lock_timeout::text
with {first_submissions},
fresh as (
    {sent_columns}
    from unnest({content_arrays}, :delays_us::int8[], :due_times::timestamptz[], :given::bool[], :holds_us::int8[], :options::jsonb[])
             with ordinality as m({content}, delay_us, at, given, hold_us, asked, n)
         cross join (select clock_timestamp() as now) moment
    where m.id in (select n.id from novel n)
      and m.id in (select c.job_id from chosen c where c.known is null)
    order by m.n
),
{numbered},
ready as (
    insert into {schema}.job ({carried}, visible_at, options, blocked_on, share)
    select m.seq, m.now, {content_values:m},
           case when m.hold_us > 0 and (m.options ? 'group'::text) is not true then m.now + m.hold_us::float8 * interval '1 microsecond' end, m.options,
           case when m.options ? 'group'::text then 'g:' || (m.options ->> 'group'::text) end, case when m.options ? 'group'::text then '' end
    from msg m
    where m.due_at is null or m.due_at <= m.now
    order by m.n
    on conflict (id) do nothing
    returning id, blocked_on
),
{blocked_and_later}
    returning id
)
select n.id, exists (select from ready r where r.id = n.id) or exists (select from later l where l.id = n.id) as stored, null::text as known
from novel n
union all
select job_id, false, known from chosen where known <> 'same'::text

-- name: remember_submissions
-- Records first submissions that ask for a unique key, before the keys are taken: a repeated submission must not take its key again. The
-- ids are locked in order, and those of other jobs refused, as in `receive`. It sets for how long the rest of the transaction waits for a lock.
-- :id::uuid[], :kind::text[], :queue::text[], :digests::bytea[], :lock_timeout::text
with {first_submissions}
select id, null::text as known from novel
union all
select job_id, known from chosen where known <> 'same'::text
