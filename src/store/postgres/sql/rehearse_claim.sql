-- Does to these rows what a claim does, in a transaction that is rolled back: a row that no claim can carry (a counter at its end, a value
-- that a constraint of the table refuses) fails here, too. Locked rows are just being claimed.
-- :ids::uuid[]
update {schema}.job j
set lock_owner = 1, version = 1, attempt = j.attempt + 1, claimed_at = clock_timestamp(), visible_at = null
where j.ctid = any (array(
    select c.ctid from {schema}.job c where c.id = any (:ids::uuid[]) and c.lock_owner is null for update skip locked
))
