-- What is on record for an id.
select digest from jobwright_submission where id = :id
