-- In its table, because it may be the move that can't be made. The hold keeps claims away as it does for a delivery.
update {schema}.job
set lock_owner = null, claimed_at = null, held_until = clock_timestamp() + $4 * interval '1 microsecond'
where id = $2 and version = $3 and lock_owner = $1
