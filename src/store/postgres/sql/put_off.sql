-- In its table, because it may be the move that can't be made. The hold keeps claims away as it does for a delivery.
with back as (
    update {schema}.job
    set lock_owner = null, claimed_at = null, held_until = clock_timestamp() + $4 * interval '1 microsecond'
    where id = $2 and version = $3 and lock_owner = $1
    returning gate
)
insert into {schema}.opening (key) select gate from back where gate is not null
