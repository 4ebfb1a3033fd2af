-- Leaves the job in its table, because the move may be what fails. Hiding the row keeps claims away, as for a delivery.
-- A suspect (suspects.sql) waits for no key.
-- :node::int8, :id::uuid, :version::int8, :delay_us::int8
with back as (
    update {schema}.job
    set lock_owner = null, claimed_at = null, visible_at = clock_timestamp() + :delay_us::float8 * interval '1 microsecond'
    where {briefly} and id = :id and version = :version and lock_owner = :node
    returning blocked_on
)
insert into {schema}.unblock (key) select blocked_on from back where blocked_on <> 'alone'
