-- The recorded digest of an id.
select digest from jobwright_submission where id = :id
