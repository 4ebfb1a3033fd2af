-- If no lease is given, the original duration applies. A lease that ran out but was not released yet can be renewed: nothing was taken from
-- its worker.
update jobwright_external_job set lease_until = :now + coalesce(:lease, lease) where id = :id and version = :version
