-- The same for those that a node can't know of, because the answer to the claim got lost on the way, or that are in hand no more; and for groups
-- that it holds by a lease which it does not know (known ones are among $2: no job has their id). As for the rows it owns (release_unknown.sql),
-- claims are compared, and what claims took that began after $4 is left alone.
with ended as (
    delete from {schema}.ending
    where node = $1
      and ((job_id, version) in (select * from unnest($2::uuid[], $3::int8[]))) is not true
      and ($4::int4 is null or (version - $4 + 2147483648) % 2147483648 >= 1073741824)
    returning holder
),
leases as (
    delete from {schema}.slot
    where node = $1
      and (job_id = any ($2::uuid[])) is not true
      and ($4::int4 is null or (version::int8 - $4 + 2147483648) % 2147483648 >= 1073741824)
    returning job_id, key
),
opened as (
    insert into {schema}.opening (key) select key from leases
)
select holder from ended union all select job_id from leases
