-- name: take_numbers
-- A counter row: with one writer it is as good as a sequence, and a batch takes all its numbers at once.
update jobwright_sequence set value = value + :count where name = :name returning value

-- name: unhide
-- Ends the head start of a delivery that will not arrive.
update jobwright_job set visible_at = null where id = :id and state = 'waiting' and visible_at is not null returning queue
