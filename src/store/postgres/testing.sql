-- name: travel
-- For the test kit: lets time pass for timers and rates, by moving all of them earlier. Only for a test's own schema.
-- :by_us::int8
with unblocks as (
    update {schema}.unblock set unblock_at = unblock_at - :by_us::float8 * interval '1 microsecond'
),
rates as (
    update {schema}.rate_log set at = at - :by_us::float8 * interval '1 microsecond'
)
update {schema}.timer_job set due_at = due_at - :by_us::float8 * interval '1 microsecond'
