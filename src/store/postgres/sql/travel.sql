-- For the test kit: lets time pass for timers and rates, by making all of it earlier. Only in a schema of a test's own.
with openings as (
    update {schema}.opening set opens_at = opens_at - $1 * interval '1 microsecond'
),
rates as (
    update {schema}.rate_log set at = at - $1 * interval '1 microsecond'
)
update {schema}.timer_job set due_at = due_at - $1 * interval '1 microsecond'
