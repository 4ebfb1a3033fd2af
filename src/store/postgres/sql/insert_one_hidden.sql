-- Like insert_one.sql, for a row that is hidden for its delivery: the usual single send over a broker.
-- {content_single}, :hold_us::int8
insert into {schema}.job ({content}, visible_at)
values ({content_single}, clock_timestamp() + :hold_us::int8::float8 * interval '1 microsecond')
