-- Like insert_one.sql, for a row that is hidden for its delivery: the usual single send over a broker.
insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers, visible_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp() + $10::int8 * interval '1 microsecond')
