-- Like release_unknown.sql, but passes over rows that another transaction has locked. It runs after that one failed, for all rows or for some
-- (:only; null = all): the others must wait neither for a locked row nor for one that the application refuses to let go. The caller tries again
-- later, because a cancellation under way may be what locks the row.
-- :node::int8, :ids::uuid[], :versions::int8[], :before::int4, :from_location::tid, :to_location::tid, :only::uuid[]
with back as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, attempt = greatest(attempt - 1, 0)
    where {briefly} and j.ctid = any (array(
        select f.ctid
        from {schema}.job f
        where f.ctid >= :from_location and f.ctid < :to_location
          and {unknown}
          and (:only::uuid[] is null or f.id = any (:only::uuid[]))
        for update skip locked
    ))
    returning id, blocked_on
),
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from back where blocked_on <> 'alone'
)
select id from back
