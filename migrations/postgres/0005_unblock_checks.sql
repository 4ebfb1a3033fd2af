-- An unblock has a time, and is for some jobs or none. Anyone who may send may write one. No key is longer: a share of a limited queue has the names
-- of both (src/store/admission/plan.rs).
set local search_path = pg_catalog, pg_temp;
alter table {schema}.unblock
    add constraint unblock_is_readable check (isfinite(unblock_at) and n >= 0 and octet_length(key) <= 500) not valid;
