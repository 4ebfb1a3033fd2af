-- Renews leases by this server's clock (for the original duration if none is given), each only if it is still this hand-out; no id is given
-- twice. A lease that ran out but was not released yet can be renewed: nothing was taken from its worker.
-- :ids::uuid[], :versions::int8[], :leases_us::int8[]
update {schema}.external_job e
set lease_until = clock_timestamp()
                      + coalesce((:leases_us::int8[])[array_position(:ids::uuid[], e.id)]::float8 * interval '1 microsecond', e.lease)
where {briefly}
  and e.id = any (:ids::uuid[])
  and e.version = (:versions::int8[])[array_position(:ids::uuid[], e.id)]
returning e.id
