-- A given id that is known with another kind or queue belongs to another job. Its sender is told, because a job that is silently taken for one that was
-- sent before is lost. `decide_ids` takes the place of `new_ids`, which older builds go on calling.

set local search_path = pg_catalog, pg_temp;

-- Decides about ids that their senders chose: `known` is null if no job has the id, 'same' if one has that was sent with this kind and to this queue, and
-- says otherwise in what it differs. Nothing else of a job is told, since it may be of another sender.
-- No ids, or null: nothing to decide.
-- If another transaction is sending one of the ids, the function waits until that ends. Ids are locked in their own order, so two calls that overlap
-- do not wait for each other in a circle.
-- A job that an operator moved to another queue is still the one that was sent to the first queue: its option `sentTo` names that.
-- It is volatile, so that the lookups come after the wait and see what was committed meanwhile. In a transaction with an old snapshot they do not:
-- then a job may be kept beside one with the same id that was committed since, in another table.
-- It runs with its owner's rights: a role that may send need not be able to read every table.
-- Each id is looked up alone: `not exists` could be planned as a walk over all ids there are. `offset 0` keeps the lookups from being repeated for each
-- use of their result.
create function {schema}.decide_ids(ids uuid[], kinds text[], queues text[]) returns table (job_id uuid, known text)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $decide$
begin
    if coalesce(cardinality(ids), 0) = 0 then
        return;
    end if;
    insert into {schema}.id_lock select distinct i.id from unnest(ids) as i(id) order by i.id on conflict (id) do nothing;
    delete from {schema}.id_lock d where d.id = any (ids);
    return query
        select a.id,
               case when a.found is null then null
                    when a.kind = a.found[1] and (a.queue = a.found[2] or a.queue = a.found[3]) then 'same'
                    when a.kind = a.found[1] then 'queue'
                    when a.queue = a.found[2] or a.queue = a.found[3] then 'kind'
                    else 'kind and queue'
               end
        from (
            select i.id, i.kind, i.queue,
                   coalesce((select array[t.kind, t.queue, t.options ->> 'sentTo'] from {schema}.job t where t.id = i.id limit 1),
                            (select array[t.kind, t.queue, t.options ->> 'sentTo'] from {schema}.timer_job t where t.id = i.id limit 1),
                            (select array[t.kind, t.queue, t.options ->> 'sentTo'] from {schema}.suspended_job t where t.id = i.id limit 1),
                            (select array[t.kind, t.queue, t.options ->> 'sentTo'] from {schema}.dead_letter_job t where t.id = i.id limit 1),
                            (select array[t.kind, t.queue, t.options ->> 'sentTo'] from {schema}.external_job t where t.id = i.id limit 1)) as found
            from unnest(ids, kinds, queues) as i(id, kind, queue)
            offset 0
        ) a;
end
$decide$;

-- Only roles that may send decide about ids: whoever may call this can lock any id. Roles that may call `new_ids` keep what they need.
revoke execute on function {schema}.decide_ids(uuid[], text[], text[]) from public;
do $$
declare
    sender oid;
begin
    for sender in
        select distinct a.grantee
        from pg_catalog.pg_proc p
        cross join lateral pg_catalog.aclexplode(p.proacl) a
        where p.oid = '{schema}.new_ids(uuid[])'::regprocedure and a.privilege_type = 'EXECUTE' and a.grantee <> 0 and a.grantee <> p.proowner
    loop
        execute format('grant execute on function {schema}.decide_ids(uuid[], text[], text[]) to %s', sender::regrole);
    end loop;
end
$$;
