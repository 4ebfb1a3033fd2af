-- Keys of unique jobs are taken together and given back together. docs/adr/0061-keys-are-taken-and-given-back-together.md says why.

-- The key that a job asked for. Null: none, or something that somebody wrote by hand and that is none; it must not keep its row from going.
create function {schema}.key_of(terms jsonb) returns bytea
language sql immutable parallel safe
as $key$
    select case when terms -> 'unique' ->> 'key' ~ '^([0-9a-f]{2})+$' then pg_catalog.decode(terms -> 'unique' ->> 'key', 'hex') end
$key$;

-- A key is found by itself, and then says whose it is: nobody looks for the keys of a job.
drop index {schema}.unique_key_job;

-- What went in any other way than with a batch of jobs that are done: row by row.
create or replace function {schema}.release_unique() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $release$
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    delete from {schema}.unique_key
    where ctid = any (array(
        select ctid
        from {schema}.unique_key
        where key = {schema}.key_of(old.terms) and job_id = old.id and hold <> 'period'
          -- It may only have moved.
          and not exists (select from {schema}.job where id = old.id)
          and not exists (select from {schema}.timer_job where id = old.id)
          and not exists (select from {schema}.external_job where id = old.id)
          and not exists (select from {schema}.dead_letter_job where id = old.id)
          and not exists (select from {schema}.suspended_job where id = old.id)
        for update skip locked
    ));
    return null;
end
$release$;

-- A statement that gives the keys of its jobs back by itself says so (`jobwright.released`, for its transaction alone).
drop trigger job_unique on {schema}.job;
create trigger job_unique after delete on {schema}.job for each row
    when (old.terms ? 'unique' and coalesce(current_setting('jobwright.released', true), '') = '')
    execute function {schema}.release_unique();

-- As before, but many keys of which nobody has any are taken with one insert. It goes in the order of the keys too, so what it waits for comes after
-- all that it has; and if somebody has one of them it is undone, before they are asked for one by one: nothing that it took is held while that begins
-- with the first again. So of two that ask for many, in whichever way, neither waits for the other in a circle.
-- The look at some of them in front of it spares those that mostly send what is there already the rows that would be undone. To look at all would take
-- half as long as to insert them.
-- Who got a key is not told: only who did not.
create or replace function {schema}.take_unique(keys bytea[], ids uuid[], holds text[], periods int8[], conflicts text[])
returns table (n integer, verdict text, holder uuid)
language plpgsql
set search_path = pg_catalog, pg_temp
as $take$
#variable_conflict use_column
declare
    other text;
    place text;
begin
    -- A subtransaction costs more than a few keys.
    if cardinality(keys) > 8 and not exists (select from {schema}.unique_key k where k.key = any (keys[1:16])) then
        begin
            insert into {schema}.unique_key (key, job_id, hold, expires_at)
            select u.key, u.id, u.hold, clock_timestamp() + u.period * interval '1 microsecond'
            from unnest(keys, ids, holds, periods) as u(key, id, hold, period)
            order by u.key;
            return;
        exception when unique_violation then
            null;
        end;
    end if;
    if not 'reject' = any (conflicts) then
        return query select * from {schema}.try_unique(keys, ids, holds, periods, conflicts) t where t.verdict <> 'free';
        return;
    end if;
    -- Nothing is taken if one of them is to be rejected: then that one is the only answer.
    begin
        return query select * from {schema}.try_unique(keys, ids, holds, periods, conflicts) t where t.verdict <> 'free';
    exception when sqlstate 'JWUNQ' then
        get stacked diagnostics other = pg_exception_detail, place = pg_exception_hint;
        return query select place::integer, 'conflict'::text, other::uuid;
    end;
end
$take$;
