-- What jobs held that end together is freed together. The trigger that does it for each row takes as long as everything else that is done for a
-- job. A statement that removes many says which (`jobwright.ended`, for its transaction alone), and then they are looked up once.

create function {schema}.free_ended() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $free$
declare
    ended constant uuid[] := current_setting('jobwright.ended')::uuid[];
begin
    if '"' || tg_table_schema || '"' <> '{schema}' then
        raise exception '% is for the tables of {schema}, and not for %', tg_name, tg_relid::regclass using errcode = 'insufficient_privilege';
    end if;
    -- Some may not have ended: their claim was an old one, or their id was sent again. Who is admitted keeps all that it holds (no key here), and
    -- an ordered job its group, wherever it is.
    with kept as materialized (
        select id, null::text as key from {schema}.job where id = any (ended) and admitted
        union all
        select id, null from {schema}.external_job where id = any (ended) and admitted
        union all
        select id, null from {schema}.blocked_job where id = any (ended) and admitted
        union all
        select id, 'g:' || (terms ->> 'group') from {schema}.blocked_job where id = any (ended) and terms ? 'ordered'
        union all
        select id, 'g:' || (terms ->> 'group') from {schema}.timer_job where id = any (ended) and terms ? 'ordered'
        union all
        select id, 'g:' || (terms ->> 'group') from {schema}.dead_letter_job where id = any (ended) and terms ? 'ordered'
        union all
        select id, 'g:' || (terms ->> 'group') from {schema}.suspended_job where id = any (ended) and terms ? 'ordered'
    ),
    freed as (
        delete from {schema}.slot
        where job_id = any (ended)
          and not exists (select from kept where kept.id = slot.job_id and (kept.key is null or kept.key = slot.key))
        returning key
    )
    insert into {schema}.opening (key, n) select key, count(*) from freed group by key;
    return null;
end
$free$;

revoke execute on function {schema}.free_ended() from public;

drop trigger job_free on {schema}.job;
-- An ordered job may hold its group when its row is gone: only the row says so.
create trigger job_free after delete on {schema}.job for each row
    when (old.admitted and (old.terms ? 'ordered' or coalesce(current_setting('jobwright.ended', true), '') = ''))
    execute function {schema}.free_slots();
create trigger job_free_ended after delete on {schema}.job for each statement
    when (coalesce(current_setting('jobwright.ended', true), '') <> '')
    execute function {schema}.free_ended();
