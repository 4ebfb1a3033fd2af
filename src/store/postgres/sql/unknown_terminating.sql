-- Like handlers_ended.sql, for handlers that a node can't know of, because the answer to the claim got lost, or that are no longer in
-- flight. Also for groups that the node holds by a lease which it does not know (known ones are among :ids: no job has their id). As for
-- owned rows (release_unknown.sql), claims are compared, and those that began after :before are left alone.
-- :node::int8, :ids::uuid[], :versions::int8[], :before::int4
with ended as (
    delete from {schema}.terminating_handler
    where node = :node
      and ((job_id, version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is not true
      and (:before::int4 is null or (version - :before + 2147483648) % 2147483648 >= 1073741824)
    returning holder
),
leases as (
    delete from {schema}.permit
    where node = :node
      and (job_id = any (:ids::uuid[])) is not true
      and (:before::int4 is null or (version::int8 - :before + 2147483648) % 2147483648 >= 1073741824)
    returning job_id, key
),
unblocked as (
    insert into {schema}.unblock (key) select key from leases
)
select holder from ended union all select job_id from leases
