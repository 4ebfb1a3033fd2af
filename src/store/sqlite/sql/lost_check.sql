-- Runs on a reader. A dead node is work even if it owns nothing: it has to be forgotten.
select exists (select 1 from jobwright_node where dead_at is not null)
    or exists (
        select 1 from jobwright_job indexed by jobwright_job_owned
        where lock_owner is not null and lock_owner not in (select id from jobwright_node)
    )
    or exists (select 1 from jobwright_terminating_handler where node is not null and node not in (select id from jobwright_node))
