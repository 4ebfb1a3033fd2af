-- Like insert_alike.sql, for jobs that also differ in their options (insert_options.sql says which options).
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, options)
    select id, $4, $5, $6, $7, payload::jsonb, options::jsonb
    from unnest($1::uuid[], $2::text[], $3::text[]) as m(id, payload, options)
)
select pg_current_xact_id()::text
