-- The columns that a verdict needs, if the claim is still current.
select seq, attempt, max_attempts, errors, visible_at from jobwright_job where id = :id and version = :version and lock_owner = :node
