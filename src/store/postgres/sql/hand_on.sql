-- Removes finished jobs of groups (as complete_holding.sql does), and takes for each the next one of its group: what an outcome, a round of
-- admission and a claim do one after the other, with one commit. The group never is free in between, and no round is needed.
-- The next one is the best behind the gate, and nobody else: where that is for another queue, of another kind, expired, or in somebody else's hand,
-- the group becomes free as always. So it does wherever anything is limited or paused, which only a round can judge; and for a node that is dead,
-- because `me` holds the node as a claim does.
-- No join: each step is a lateral look by an index, of one row. What a group's slot is told is its new holder: the old row goes by its place, which
-- nothing else moves while the job that holds it is removed here. The number of the claim ($6) is the claimer's own, as in claim.sql.
with me as materialized (
    select {schema}.hold_node($1) as id
),
done as (
    delete from {schema}.job j
    where (select set_config('jobwright.ended', ($2::uuid[])::text, true)) is not null
      and j.ctid = any ($4::tid[])
      and j.lock_owner = $1
      and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
    returning j.id, j.queue
--{all} , j.seq, j.kind, j.attempt, j.created_at, j.claimed_at, j.terms ->> 'tenant' as tenant
),
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
--{all} ),
gate as materialized (
    select s.key, s.place, d.queue
    from done d
         cross join lateral (
             select key, ctid as place from {schema}.slot where job_id = d.id and key like 'g:%' limit 1
         ) s
    where (select id from me) is not null
      and (select not exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null))
),
next as materialized (
    select b.id, g.key, g.place
    from gate g
         cross join lateral (
             select b.id
             from {schema}.blocked_job b
             where b.id = (select best.id from {schema}.blocked_job best where best.gate = g.key order by best.share, best.rank, best.seq limit 1)
               and b.gate = g.key
               and b.queue = g.queue
               and b.kind = any ($5)
               and not b.admitted
               and ((b.terms ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
                    or (b.terms ? 'expires') is not true)
             limit 1
             for update skip locked
         ) b
),
moved as (
    delete from {schema}.blocked_job where id = any (array(select id from next)) returning *
),
claimed as (
    insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers,
                              errors, terms, admitted, lock_owner, claimed_at)
    select seq, $6::int4, created_at, id, attempt + 1, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, terms,
           true, (select id from me), clock_timestamp()
    from moved
    on conflict (id) do nothing
    returning id, seq, version::int8, kind, rank, attempt, max_attempts, created_at, payload, body, content_type, headers, terms, admitted,
              ctid, queue
),
-- Not of one whose id stands in `job` already: that is dropped, as a round drops it, and its group becomes free.
left_behind as (
    delete from {schema}.slot where ctid = any (array(select place from next where id in (select id from claimed)))
),
held as (
    insert into {schema}.slot (job_id, key) select id, key from next where id in (select id from claimed) on conflict do nothing
)
select * from claimed
union all
select id, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null from done
