-- Like insert_ready.sql, for jobs with options that do not affect their rows: a tenant, a unique key, a limit key, delays of their own.
-- Jobs with a group or a time to live use insert_any.sql.
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers, options)
    select m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers, m.options::jsonb
    from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[], $7::bytea[], $8::text[], $9::jsonb[], $10::text[])
             as m(id, kind, queue, rank, max_attempts, payload, body, content_type, headers, options)
)
select pg_current_xact_id()::text
