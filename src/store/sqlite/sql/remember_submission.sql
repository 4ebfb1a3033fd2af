-- In the same transaction as its job.
insert into jobwright_submission (id, digest, received_at) values (:id, :digest, :now)
