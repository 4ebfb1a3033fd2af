-- In the same transaction as the change itself.
insert into jobwright_migration (version, name, checksum, applied_at) values (:version, :name, :checksum, :now)
