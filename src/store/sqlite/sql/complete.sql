-- The fence: an outcome of an older claim finds no row.
delete from jobwright_job where id = :id and version = :version and lock_owner = :node
