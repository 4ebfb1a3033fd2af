-- Runs in the same transaction as the insert of its job.
insert into jobwright_submission (id, digest, received_at) values (:id, :digest, :now)
