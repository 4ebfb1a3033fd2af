-- Like release_unknown.sql, but passes over rows that another transaction has locked. It runs after that one waited for such a row in vain: the
-- others must not wait with it. The caller tries again later, because a cancellation under way may be what locks the row.
-- :node::int8, :ids::uuid[], :versions::int8[], :before::int4, :from_location::tid, :to_location::tid
with back as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
    where j.ctid = any (array(
        select f.ctid
        from {schema}.job f
        where f.ctid >= :from_location and f.ctid < :to_location
          and f.lock_owner = :node
          and ((f.id, f.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is not true
          and (:before::int4 is null or (f.version::int8 - :before + 2147483648) % 2147483648 >= 1073741824)
        for update skip locked
    ))
    returning id, blocked_on
),
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from back where blocked_on is not null
)
select id from back
