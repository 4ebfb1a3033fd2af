-- name: count
-- How many jobs an operation would affect, one row for each state.
select '{state}' as state, count(*) as jobs from jobwright_job where {filter}
