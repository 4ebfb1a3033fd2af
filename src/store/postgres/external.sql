-- name: hand_out
-- Hands the best waiting rows of a queue out to external workers, each with a lease. Rows are picked as in `claim`. No node is locked:
-- the lease of the row counts, whichever node handed it out.
-- The node that hands out chooses the token (:token), at random, as a claimer chooses the number of its claim.
-- :queue::text, :limit::int8, :lease_us::int8, :token::int8
with best as materialized (
    delete from {schema}.job
    where ctid = any (array(
        select c.ctid
        from {schema}.job c
        where c.queue = :queue and c.lock_owner is null and c.blocked_on is null
          and {queue_open(:queue)}
          and {may_start}
        order by c.rank, c.seq
        limit :limit
        for update skip locked
    ))
    returning *
)
insert into {schema}.external_job as j ({carried}, version, lease_until, lease, attempt, errors, options, admitted)
select {carried}, :token, clock_timestamp() + :lease_us::float8 * interval '1 microsecond', :lease_us::float8 * interval '1 microsecond',
       attempt + 1, errors, options, admitted
from best
on conflict (id) do nothing
returning {job:j}, null::tid as ctid

-- name: report_key
-- The key from which the tokens of hand-outs are made.
select key from {schema}.report_key

-- name: take_back
-- Makes rows wait again that were handed out and did not arrive. A report that comes nevertheless finds no row.
-- A row that another transaction has locked is passed over: `take_back_locked` follows for it.
-- :ids::uuid[], :versions::int8[]
with back as (
    delete from {schema}.external_job e
    where e.ctid = any (array(
        select o.ctid
        from {schema}.external_job o
        where o.id = any (:ids::uuid[])
          and ((o.id, o.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
        for update skip locked
    ))
    returning e.*
)
{taken_back}

-- name: take_back_locked
-- Like `take_back`, for the rows that it passed over, and fails where another transaction still has one of them locked. The caller tries again.
-- :ids::uuid[], :versions::int8[]
with back as (
    delete from {schema}.external_job e
    where {briefly}
      and e.id = any (:ids::uuid[])
      and ((e.id, e.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
    returning e.*
)
{taken_back}

-- name: complete_external
-- Removes jobs that external workers have completed, each only if it is still this hand-out; no id is given twice. The same statement
-- inserts a requested reply, so there is no time at which the job is gone without its reply.
-- :ids::uuid[], :versions::int8[], :reply_ids::uuid[], :payloads::text[], :bodies::bytea[], :content_types::text[],
-- :reply_queue::text, :max_attempts::int4
with done as materialized (
    delete from {schema}.external_job e
    where {briefly}
      and e.id = any (:ids::uuid[])
      and e.version = (:versions::int8[])[array_position(:ids::uuid[], e.id)]
    returning e.id, e.kind, e.headers, e.admitted, array_position(:ids::uuid[], e.id) as n
--{all}           , e.seq, e.queue, e.attempt, e.created_at, e.handed_at, e.options ->> 'tenant'::text as tenant
),
replies as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
    select (:reply_ids::uuid[])[n], kind, :reply_queue, 0, :max_attempts, (:payloads::text[])[n]::jsonb, (:bodies::bytea[])[n],
           (:content_types::text[])[n],
           jsonb_strip_nulls(jsonb_build_object('replyTo', headers ->> 'replyTo'::text, 'correlationId', headers ->> 'correlationId'::text,
                                                'jobId', id))
    from done
    where headers ? 'replyTo'::text
    order by n
)
--{all} , remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, handed_at, 0, tenant from done
--{all} )
-- The last columns say whether others must be notified: of a reply, or of released permits.
select id, (headers ? 'replyTo'::text) is true as replies, admitted from done

-- name: show_external
-- Everything about a job while it is handed out under this token. It reads the one table that the job is in: an executor, which asks this about the
-- report of an external worker, has no rights on the view of all jobs.
-- :id::uuid, :version::int8
select id, seq, 'external' as state, kind, queue, -rank as priority, attempt, max_attempts, created_at, null::timestamptz as due_at,
       null::int8 as owner, null::timestamptz as claimed_at, errors -> -1 ->> 'error'::text as last_error,
       version, null::timestamptz as dead_at, null::text as reason, payload, body, content_type, headers, errors, options, null::text as blocked_on
from {schema}.external_job
where id = :id and version = :version

-- name: settle_external
-- Outcomes of external workers other than success, in one statement; no id is given twice. Like `settle`, with two differences: the row
-- is in another table, so a release moves it too, and no node ran it (0 in its record).
-- :ids::uuid[], :versions::int8[], :verdicts::text[], :delays_us::int8[], :error_texts::text[], :details::text[]
with taken as (
    delete from {schema}.external_job e
    where {briefly}
      and e.id = any (:ids::uuid[])
      and e.version = (:versions::int8[])[array_position(:ids::uuid[], e.id)]
    returning e.*, array_position(:ids::uuid[], e.id) as n
),
outcome as materialized (
    select t.*, (:verdicts::text[])[t.n] as verdict, (:delays_us::int8[])[t.n] as delay_us, (:error_texts::text[])[t.n] as error,
           (:details::text[])[t.n] as detail
    from taken t
),
judged as materialized (
    select o.*,
           o.verdict = 'dead' or o.verdict = 'retry' and o.attempt >= o.max_attempts as dies,
           case when o.error is null then o.errors
                else {kept_errors:o}
                    || jsonb_strip_nulls(jsonb_build_object('attempt', o.attempt, 'at', clock_timestamp(), 'node', 0,
                                                            'error', o.error, 'detail', o.detail))
           end as all_errors
    from outcome o
),
released as (
    insert into {schema}.job ({carried}, version, attempt, errors, options, admitted)
    select {carried}, version & 2147483647::int8, greatest(attempt - 1, 0), all_errors, options, admitted
    from judged
    where verdict = 'release'
    on conflict (id) do nothing
),
again as (
    insert into {schema}.timer_job ({carried}, version, due_at, attempt, errors, options)
    select {carried}, version & 2147483647::int8, clock_timestamp() + delay_us::float8 * interval '1 microsecond',
           case verdict when 'snooze' then greatest(attempt - 1, 0) else attempt end, all_errors, options
    from judged
    where not dies and verdict in ('retry', 'snooze')
    on conflict (id) do nothing
),
dead_lettered as (
    insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
    select {carried}, version & 2147483647::int8, attempt, coalesce(error, 'attempts exhausted'), all_errors, options
    from judged
    where dies
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, outcome, attempt, created_at, handed_at, 0, options ->> 'tenant'::text, error
--{failed}     from (select j.*, case when dies then 'dead' else case verdict when 'retry' then 'failed' when 'cancel' then 'cancelled' end end as outcome
--{failed}           from judged j) ended
--{failed}     where outcome in ({kept})
--{failed} )
select id from taken

-- name: extend_external
-- Renews leases by this server's clock (for the original duration if none is given), each only if it is still this hand-out; no id is given
-- twice. A lease that ran out but was not released yet can be renewed: nothing was taken from its worker.
-- :ids::uuid[], :versions::int8[], :leases_us::int8[]
update {schema}.external_job e
set lease_until = clock_timestamp()
                      + coalesce((:leases_us::int8[])[array_position(:ids::uuid[], e.id)]::float8 * interval '1 microsecond', e.lease)
where {briefly}
  and e.id = any (:ids::uuid[])
  and e.version = (:versions::int8[])[array_position(:ids::uuid[], e.id)]
returning e.id

-- name: external_late
-- Whether any lease has run out. Checked first, because the answer is nearly always no. `expire_external` also needs the job table, and
-- would wait on one of the engine's few connections for any lock on that.
select exists (select from {schema}.external_job where lease_until <= statement_timestamp())
    or exists (select from {schema}.terminating_handler where until <= statement_timestamp())

-- name: expire_external
-- Releases jobs whose external workers did not answer in time, the longest overdue first; their attempt is spent. Also releases what
-- cancelled jobs of such workers held.
-- Uses statement_timestamp() and not clock_timestamp(), because only a stable value can be an index condition.
-- If some of them made it fail, it is run for the others (:ids).
-- :limit::int8, :error::text, :reason::text, :ids::uuid[]
with late as (
    delete from {schema}.external_job
    where {briefly} and ctid = any (array(
        select ctid
        from {schema}.external_job
        where lease_until <= statement_timestamp() and (:ids::uuid[] is null or id = any (:ids))
        order by lease_until
        limit :limit
        for update skip locked
    ))
    returning *
),
over as (
    delete from {schema}.terminating_handler
    where ctid = any (array(
        select ctid from {schema}.terminating_handler where until <= statement_timestamp() limit :limit for update skip locked
    ))
    returning holder
),
noted as materialized (
    select l.*, l.attempt >= l.max_attempts as dies,
           {kept_errors:l}
               || jsonb_build_object('attempt', l.attempt, 'at', clock_timestamp(), 'node', 0, 'error', :error::text) as all_errors
    from late l
),
freed as (
    insert into {schema}.job ({carried}, version, attempt, errors, options, admitted)
    select {carried}, version & 2147483647::int8, attempt, all_errors, options, admitted
    from noted
    where not dies
    on conflict (id) do nothing
),
dead_lettered as (
    insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
    select {carried}, version & 2147483647::int8, attempt, :reason, all_errors, options
    from noted
    where dies
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, case when dies then 'dead' else 'lost' end, attempt, created_at, handed_at, 0, options ->> 'tenant'::text, :error
--{failed}     from noted
--{failed} )
select count(*) filter (where not dies) as waiting, count(*) filter (where dies) as dead, (select count(*) from over) as ended from noted

-- name: late
-- The hand-outs that `expire_external` would release, without their content: used to find the one that it can't release.
-- :limit::int8
select id, version, seq from {schema}.external_job where lease_until <= statement_timestamp() order by lease_until limit :limit

-- name: dead_letter_external
-- Makes dead letters of hand-outs that can't be released, each only if it is still the one that was examined. Its attempt was spent when it was
-- handed out.
-- :ids::uuid[], :versions::int8[], :seqs::int8[], :reasons::text[], :node::int8
with gone as (
    delete from {schema}.external_job e
    where {briefly}
      and e.id = any (:ids::uuid[])
      and e.version = (:versions::int8[])[array_position(:ids::uuid[], e.id)]
      and e.seq = (:seqs::int8[])[array_position(:ids::uuid[], e.id)]
    returning e.*, (:reasons::text[])[array_position(:ids::uuid[], e.id)] as why, 0 as cost
),
{buried}
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, 'dead', attempts, created_at, :node::int8, fit ->> 'tenant'::text, why from buried
--{failed} )
select id from gone
