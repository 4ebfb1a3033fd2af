-- The last resort for a timer that can neither be made to wait nor be made a dead letter: it is due at the end of all times, in a queue that is
-- named after its old one and which claims leave alone. Its content is not touched (see park_unreadable.sql).
-- :id::uuid, :seq::int8
update {schema}.timer_job t
set queue  = 'unreadable:' || case when octet_length(t.queue) <= 89 then t.queue else left(t.queue, 22) end,
    due_at = '9999-01-01 00:00:00+00'::timestamptz,
    version = t.version::int8 & 2147483647::int8,
    {fit_numbers:t}
where {briefly} and t.id = :id and t.seq = :seq and t.queue not like 'unreadable:%'
returning t.id
