-- Without a lease of its own, for as long as it was handed out. One that ran out and was not released yet can be renewed: nothing was taken from its worker.
update jobwright_external_job set lease_until = :now + coalesce(:lease, lease) where id = :id and version = :version
