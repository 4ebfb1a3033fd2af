-- name: submission_digest
-- The recorded digest of an id.
select digest from jobwright_submission where id = :id

-- name: remember_submission
-- Runs in the same transaction as the insert of its job.
insert into jobwright_submission (id, digest, received_at) values (:id, :digest, :now)

-- name: prune_submissions
-- A batch at a time, oldest first.
delete from jobwright_submission
where id in (select id from jobwright_submission where received_at < :before order by received_at limit :limit)
