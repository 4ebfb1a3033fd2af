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
