-- The flush of one fresh job that is due now, in its own transaction: the usual single send. Like insert_ready.sql, but an array takes
-- longer to unpack than a row to insert, and an answer with a row takes a tenth longer than one without.
-- {content_single}
insert into {schema}.job ({content})
values ({content_single})
