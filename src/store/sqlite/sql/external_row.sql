-- The columns that an outcome needs, if the hand-out is still current.
select seq, attempt, max_attempts, errors, kind, headers, admitted from jobwright_external_job where id = :id and version = :version
