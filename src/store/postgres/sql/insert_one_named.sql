-- Like insert_one.sql, in a transaction with other changes: it returns the transaction's id, as insert_ready.sql does.
-- {content_single}
insert into {schema}.job ({content})
values ({content_single})
returning pg_current_xact_id()::text as xid
