-- Removes jobs that external workers have completed, each only if it is still this hand-out; no id is given twice. The same statement
-- inserts a requested reply, so there is no time at which the job is gone without its reply.
with done as materialized (
    delete from {schema}.external_job e
    where e.id = any ($1::uuid[])
      and e.version = ($2::int8[])[array_position($1::uuid[], e.id)]
    returning e.id, e.kind, e.headers, e.admitted, array_position($1::uuid[], e.id) as n
--{all}           , e.seq, e.queue, e.attempt, e.created_at, e.handed_at, e.options ->> 'tenant' as tenant
),
replies as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
    select ($3::uuid[])[n], kind, $7, 0, $8, ($4::text[])[n]::jsonb, ($5::bytea[])[n], ($6::text[])[n],
           jsonb_strip_nulls(jsonb_build_object('replyTo', headers ->> 'replyTo', 'correlationId', headers ->> 'correlationId',
                                                'jobId', id))
    from done
    where headers ? 'replyTo'
    order by n
)
--{all} , remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, handed_at, 0, tenant from done
--{all} )
-- The last columns say whether others must be notified: of a reply, or of released permits.
select id, (headers ? 'replyTo') is true, admitted from done
