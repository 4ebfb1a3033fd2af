-- The only query while nothing is due: one lookup at the start of the index.
select min(next_at) from jobwright_schedule where paused = 0 and next_at is not null
