-- Forgets unique keys that were found without a job, each only in the version that was judged (left_keys.sql).
-- :keys::bytea[], :versions::text[]
with gone as (
    delete from {schema}.unique_key
    where {briefly} and ctid = any (array(
        select u.ctid
        from {schema}.unique_key u
        where u.key = any (:keys::bytea[]) and ((u.key, u.xmin::text) in (select * from unnest(:keys::bytea[], :versions::text[]))) is true
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
