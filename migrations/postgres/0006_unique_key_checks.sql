-- A unique key is held until some time, if it is held for a period. Anyone who may send unique jobs may write one.
set local search_path = pg_catalog, pg_temp;
alter table {schema}.unique_key
    add constraint unique_key_is_readable check (isfinite(expires_at) and isfinite(taken_at) and octet_length(key) <= 64) not valid;
