-- The jobs that age.sql would raise: used to go around those that it can't raise.
-- :queue::text, :aging_us::int8, :limit::int8, :blocked_on::text
with recursive {old}
select id from old where steps <> aged
