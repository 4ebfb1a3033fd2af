-- Makes rows wait again that were handed out and did not arrive. A report that comes nevertheless finds no row.
-- A row that another transaction has locked is passed over: take_back_locked.sql follows for it.
-- :ids::uuid[], :versions::int8[]
with back as (
    delete from {schema}.external_job e
    where e.ctid = any (array(
        select o.ctid
        from {schema}.external_job o
        where o.id = any (:ids::uuid[])
          and ((o.id, o.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
        for update skip locked
    ))
    returning e.*
)
{taken_back}
