-- Like insert_ready.sql, for jobs with options that do not affect their rows: a tenant, a unique key, a limit key, delays of their own.
-- Jobs with a group or a time to live use insert_any.sql.
-- {content_arrays}, :options::text[]
with flushed as (
    insert into {schema}.job ({content}, options)
    select {content_values:m}, m.options::jsonb
    from unnest({content_arrays}, :options::text[])
             as m({content}, options)
)
select pg_current_xact_id()::text as xid
