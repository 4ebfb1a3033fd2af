-- Ends the head start of deliveries that will not arrive. A row that is locked at this moment is being claimed, and needs nothing more.
-- :ids::uuid[]
with freed as (
    update {schema}.job
    set visible_at = null
    where {briefly} and ctid = any (array(
        select c.ctid
        from {schema}.job c
        where c.id = any (:ids::uuid[]) and c.lock_owner is null and c.visible_at is not null
        for update skip locked
    ))
    returning queue
)
select distinct queue from freed
