-- Does to these rows what a release does, in a transaction that is rolled back: makes them wait, and makes dead letters of them. A row that
-- keeps the others from being released fails here, too.
-- :ids::uuid[]
with freed as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, errors = {kept_errors:j} || '{"error": "owner lost"}'::jsonb
    where j.ctid = any (array(
        select c.ctid from {schema}.job c where c.id = any (:ids::uuid[]) and c.lock_owner is not null for update skip locked
    ))
    returning j.*
)
insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
select {carried}, version, attempt, 'owner lost', errors, options
from freed
on conflict (id) do nothing
