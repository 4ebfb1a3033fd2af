-- Runs in the same transaction as the change itself.
insert into jobwright_migration (version, name, checksum, min_compatible, is_filled, applied_at)
values (:version, :name, :checksum, :min_compatible, :is_filled, :now)
on conflict (version) do update set is_filled = excluded.is_filled
