-- The flush of jobs that differ only in their payload, which is JSON: most batches. It passes two arrays instead of nine: each array is
-- unpacked separately, which takes a tenth of the time of a batch. Rows and answer are as in insert_ready.
-- :ids::uuid[], :payloads::text[], :kind::text, :queue::text, :rank::int2, :max_attempts::int4
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload)
    -- JSON is passed as text, here and in all statements that write many rows: the memory that the server needs to parse a document is
    -- released row by row. An array of jsonb would be parsed as a whole, and keep all of that to the end.
    select id, :kind, :queue, :rank, :max_attempts, payload::jsonb
    from unnest(:ids::uuid[], :payloads::text[]) as m(id, payload)
)
select pg_current_xact_id()::text as xid
