-- A counter row: the one writer makes it as good as a sequence, and a batch takes all its numbers at once.
update jobwright_sequence set value = value + :count where name = :name returning value
