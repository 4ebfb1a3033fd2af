-- Whether a claim is current.
select 1 from jobwright_job where id = :id and version = :version and lock_owner = :node
