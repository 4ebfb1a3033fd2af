-- Renews leases by this server's clock (for the original duration if none is given), each only if it is still this hand-out; no id is given
-- twice. A lease that ran out but was not released yet can be renewed: nothing was taken from its worker.
update {schema}.external_job e
set lease_until = clock_timestamp()
                      + coalesce(($3::int8[])[array_position($1::uuid[], e.id)] * interval '1 microsecond', e.lease)
where e.id = any ($1::uuid[])
  and e.version = ($2::int8[])[array_position($1::uuid[], e.id)]
returning e.id
