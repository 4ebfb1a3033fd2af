-- Leaves the job in its table, because the move may be what fails. Hiding the row keeps claims away, as for a delivery.
with back as (
    update {schema}.job
    set lock_owner = null, claimed_at = null, visible_at = clock_timestamp() + $4 * interval '1 microsecond'
    where id = $2 and version = $3 and lock_owner = $1
    returning blocked_on
)
insert into {schema}.unblock (key) select blocked_on from back where blocked_on is not null
