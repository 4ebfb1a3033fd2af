-- Asked on a reader, so that a look into an empty queue never waits for the writer. Reads only the index.
select exists (
    select 1 from jobwright_job
    where lock_owner is null and queue = :queue and (rank, seq) > (:rank, :seq)
      and (:kinds is null or kind in (select value from json_each(:kinds)))
)
