-- The flush of one fresh job that is due now, in its own transaction: the usual single send. Like insert_ready.sql, but an array takes
-- longer to unpack than a row to insert, and an answer with a row takes a tenth longer than one without.
insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
