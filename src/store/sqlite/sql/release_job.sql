-- The version stays: without an owner no outcome is accepted, and the next claim raises it.
update jobwright_job set lock_owner = null, claimed_at = null, attempt = :attempt, errors = :errors where seq = :seq
