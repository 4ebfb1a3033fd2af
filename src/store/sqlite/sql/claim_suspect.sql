-- Claims a suspect by its id, just after suspect_to_job has moved its row here. The mark in `visible_at` says that its node runs nothing else.
update jobwright_job as job
set lock_owner = :node, claimed_at = :now, visible_at = :mark, version = :claim, attempt = attempt + 1
where id = :id and lock_owner is null
returning {job}
