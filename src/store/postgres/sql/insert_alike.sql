-- The flush of jobs that differ in their payload alone, which is JSON: most batches. Two arrays instead of nine: each array is a set of
-- its own to be walked, and that is a tenth of the time of a batch. Rows and answer as insert_ready.
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload)
    select id, $3, $4, $5, $6, payload
    from unnest($1::uuid[], $2::jsonb[]) as m(id, payload)
)
select pg_current_xact_id()::text
