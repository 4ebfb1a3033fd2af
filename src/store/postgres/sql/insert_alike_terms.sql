-- As insert_alike.sql, for jobs that differ in their terms too (insert_terms.sql says in which).
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, terms)
    select id, $4, $5, $6, $7, payload::jsonb, terms::jsonb
    from unnest($1::uuid[], $2::text[], $3::text[]) as m(id, payload, terms)
)
select pg_current_xact_id()::text
