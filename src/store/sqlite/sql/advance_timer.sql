-- A timer is never delayed.
update jobwright_timer_job set due_at = min(due_at, :due_at) where seq = :seq
