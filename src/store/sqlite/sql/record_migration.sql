-- Runs in the same transaction as the change itself.
insert into jobwright_migration (version, name, checksum, min_compatible, applied_at)
values (:version, :name, :checksum, :min_compatible, :now)
on conflict do nothing
