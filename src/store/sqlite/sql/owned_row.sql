-- What a verdict depends on, for a claim that is still current.
select seq, attempt, max_attempts, errors from jobwright_job where id = :id and version = :version and lock_owner = :node
