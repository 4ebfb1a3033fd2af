-- Takes back permits that were found without a holder some time ago, if they still have none. Runs in the turn of an admission pass: nothing else
-- gives permits to jobs meanwhile, and what did before is seen here.
-- :holders::uuid[], :keys::text[]
with gone as (
    delete from {schema}.permit p
    where {briefly}
      and p.job_id = any (:holders::uuid[])
      and ((p.job_id, p.key) in (select * from unnest(:holders::uuid[], :keys::text[]))) is true
      and p.node is null
      and {orphaned:p}
    returning p.job_id, p.key
),
unblocked as (
    insert into {schema}.unblock (key) select distinct key from gone
)
select job_id, key from gone
