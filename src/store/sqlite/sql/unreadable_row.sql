-- The values that go on record when the row itself can't be read, whatever may have been written there.
select cast(max(attempt, 0) & 2147483647 as integer) as attempt, errors from {table} where seq = :seq
