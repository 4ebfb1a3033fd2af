-- The common flush: fresh ids, all due now. One row source for all columns keeps it one statement of one shape, whatever the number of
-- messages. Rows get their seq in the order of the arrays. The answer is the transaction's id, with which the server can be asked later
-- whether it committed.
-- {content_arrays}
with flushed as (
    insert into {schema}.job ({content})
    select {content_values:m}
    from unnest({content_arrays})
             as m({content})
)
select pg_current_xact_id()::text as xid
