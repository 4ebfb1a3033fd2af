-- Like take_back.sql, for the rows that it passed over, and fails where another transaction still has one of them locked. The caller tries again.
-- :ids::uuid[], :versions::int8[]
with back as (
    delete from {schema}.external_job e
    where {briefly}
      and e.id = any (:ids::uuid[])
      and ((e.id, e.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
    returning e.*
)
{taken_back}
