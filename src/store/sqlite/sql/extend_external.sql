-- One that ran out and was not released yet can be renewed: nothing was taken from its worker.
update jobwright_external_job set lease_until = :until where id = :id and version = :version
