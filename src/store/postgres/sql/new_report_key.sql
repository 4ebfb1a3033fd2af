-- A new key for the tokens of hand-outs, of 366 bits of the server's strong random source. Jobs that external workers have meanwhile are handed out
-- again when their leases end.
insert into {schema}.report_key as k (key)
select pg_catalog.sha256(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()) || pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
    || pg_catalog.uuid_send(pg_catalog.gen_random_uuid()))
on conflict (only_one) do update set key = excluded.key
returning 1
