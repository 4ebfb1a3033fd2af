-- Like handlers_ended.sql, for handlers that a node can't know of, because the answer to the claim got lost, or that are no longer in
-- flight. Also for groups that the node holds by a lease which it does not know (known ones are among $2: no job has their id). As for
-- owned rows (release_unknown.sql), claims are compared, and those that began after $4 are left alone.
with ended as (
    delete from {schema}.terminating_handler
    where node = $1
      and ((job_id, version) in (select * from unnest($2::uuid[], $3::int8[]))) is not true
      and ($4::int4 is null or (version - $4 + 2147483648) % 2147483648 >= 1073741824)
    returning holder
),
leases as (
    delete from {schema}.permit
    where node = $1
      and (job_id = any ($2::uuid[])) is not true
      and ($4::int4 is null or (version::int8 - $4 + 2147483648) % 2147483648 >= 1073741824)
    returning job_id, key
),
unblocked as (
    insert into {schema}.unblock (key) select key from leases
)
select holder from ended union all select job_id from leases
