-- Ends the head start of deliveries that will not arrive. A row that is locked at this moment is being claimed, and needs
-- nothing any more.
with freed as (
    update {schema}.job
    set held_until = null
    where ctid = any (array(
        select c.ctid
        from {schema}.job c
        where c.id = any ($1::uuid[]) and c.lock_owner is null and c.held_until is not null
        for update skip locked
    ))
    returning queue
)
select distinct queue from freed
