-- What the tokens are made with that external workers send back with their reports: 32 random bytes.
-- In a table of its own, because executors alone may read it.

create table {schema}.report_key (
    only_one boolean primary key default true check (only_one),
    key      bytea not null check (octet_length(key) = 32)
);
-- 488 bits of the server's strong random source.
insert into {schema}.report_key (key)
select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
