-- One of the jobs that a claim may have taken whose answer got lost. No handler ran, so it costs no attempt.
update jobwright_job set lock_owner = null, claimed_at = null, attempt = max(attempt - 1, 0)
where id = :id and lock_owner = :node and version = :claim
