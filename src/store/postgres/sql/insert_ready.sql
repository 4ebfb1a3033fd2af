-- The common flush: fresh ids, all due now. One row source for all columns keeps it one statement of one shape, whatever the number of
-- messages. Rows get their seq in the order of the arrays. The answer is the transaction's id, with which the server can be asked later
-- whether it committed.
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
    select m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers
    from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[], $7::bytea[], $8::text[], $9::jsonb[])
             as m(id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
)
select pg_current_xact_id()::text
