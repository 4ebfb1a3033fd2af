-- Runs on a reader: as a rule a node knows all that it owns.
select exists (
    select 1 from jobwright_job indexed by jobwright_job_owned where lock_owner = :node and (id, version) not in ({known})
) or exists (
    select 1 from jobwright_terminating_handler where node = :node and (job_id, version) not in ({known})
)
