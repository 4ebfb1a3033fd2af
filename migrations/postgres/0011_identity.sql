-- One place decides whether a given id is new. Each table of jobs has a unique index of its own, so two first sends of one id that go to
-- different tables, one delayed and one not, would not meet in any of them, and both would be kept.

-- Always empty for everybody else: a row lives no longer than the statement that decides. What is waited for is its entry in the index.
create table {schema}.deciding (id uuid primary key)
    with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, vacuum_truncate = off);

-- Those of the ids that no job has. Whoever sends one of them at the same moment is waited for, until its transaction ends. In the order of
-- the ids, so two that overlap don't wait for each other in a circle.
-- Volatile, so that the look comes after the wait and sees what was committed meanwhile. In a transaction with an old snapshot it does not:
-- there a send may be kept beside another one that was committed since, in another table.
-- With its owner's rights: whoever may send a job need not be able to look into every table.
create function {schema}.new_ids(ids uuid[]) returns setof uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $new$
begin
    if cardinality(ids) = 0 then
        return;
    end if;
    insert into {schema}.deciding select distinct i.id from unnest(ids) as i(id) order by i.id on conflict (id) do nothing;
    delete from {schema}.deciding d where d.id = any (ids);
    return query
        select i.id
        from unnest(ids) as i(id)
        where not exists (select from {schema}.job t where t.id = i.id)
          and not exists (select from {schema}.timer_job t where t.id = i.id)
          and not exists (select from {schema}.suspended_job t where t.id = i.id)
          and not exists (select from {schema}.dead_letter_job t where t.id = i.id)
          and not exists (select from {schema}.external_job t where t.id = i.id)
          and not exists (select from {schema}.blocked_job t where t.id = i.id);
end
$new$;
