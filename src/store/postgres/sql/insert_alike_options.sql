-- Like insert_alike.sql, for jobs that also differ in their options (insert_options.sql says which options).
-- :ids::uuid[], :payloads::text[], :options::text[], :kind::text, :queue::text, :rank::int2, :max_attempts::int4
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, options)
    select id, :kind, :queue, :rank, :max_attempts, payload::jsonb, options::jsonb
    from unnest(:ids::uuid[], :payloads::text[], :options::text[]) as m(id, payload, options)
)
select pg_current_xact_id()::text as xid
