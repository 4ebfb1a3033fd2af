-- The flush of jobs that differ in their payload alone, which is JSON: most batches. Two arrays instead of nine: each array is a set of
-- its own to be walked, and that is a tenth of the time of a batch. Rows and answer as insert_ready.
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload)
    -- JSON comes as text, here and in all that write many: what the server takes to read a document it has back row by row.
    -- An array of jsonb would be read as a whole, and keep all of that to the end.
    select id, $3, $4, $5, $6, payload::jsonb
    from unnest($1::uuid[], $2::text[]) as m(id, payload)
)
select pg_current_xact_id()::text
