-- name: unreadable_row
-- The values that go on record when the row itself can't be read, whatever may have been written there.
select cast(max(attempt, 0) & 2147483647 as integer) as attempt, errors, admitted from jobwright_job where seq = :seq
