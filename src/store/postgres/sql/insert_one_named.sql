-- Like insert_one.sql, in a transaction with other changes: it returns the transaction's id, as insert_ready.sql does.
insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
returning pg_current_xact_id()::text
