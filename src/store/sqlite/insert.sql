-- name: take_numbers
-- A counter row: with one writer it is as good as a sequence, and a batch takes all its numbers at once.
update jobwright_sequence set value = value + :count where name = :name returning value
