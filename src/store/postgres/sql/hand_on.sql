-- Removes finished jobs of groups (as complete_holding.sql does), and goes on with their groups: claims the next ones of each, at their gate, for a
-- node that runs them one after the other and holds the group by a lease meanwhile. What an outcome, a round of admission and a claim do one after
-- the other, for several jobs, with one commit. The group never is free in between, and no round is needed.
-- $7 to $13, for each group: its gate; who holds it until now, a job that is removed here or a lease of this node; the lease; the queue; how many
-- are wanted (0: none, it becomes free); and where the last ones of this turn ended, so that what died since is not walked over.
-- What follows are the best behind the gate, and nobody else: up to the first that is for another queue, of another kind, expired, or in somebody
-- else's hand. If there is none, the group becomes free. So it does wherever anything is limited or paused, which only a round can judge; and for a
-- node that is dead, because `me` holds the node as a claim does. Only fresh ones follow another: an attempt that is spent may have been with a
-- process that died of one of them, and they are told apart by being alone; and whoever has one attempt must not lose it in a line.
-- The slot is locked before anything is taken: this may be a statement that nobody waits for any more, and whose lease somebody is just freeing.
-- No join: each step is a lateral look by an index. A slot is told its new holder by its place, which nothing else moves: while the job that holds it is
-- removed here, or by its node. The number of the claim ($6) is the claimer's own, as in claim.sql.
with me as materialized (
    select {schema}.hold_node($1) as id
),
done as (
    delete from {schema}.job j
    where (select set_config('jobwright.ended', ($2::uuid[])::text, true)) is not null
      and j.ctid = any ($4::tid[])
      and j.lock_owner = $1
      and ((j.id, j.version) in (select * from unnest($2::uuid[], $3::int8[]))) is true
    returning j.id
--{all} , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.terms ->> 'tenant' as tenant
),
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
--{all} ),
turn as materialized (
    select t.key, t.lease, t.queue, t.rank, t.seq, s.place, s.node is not null as leased,
           case when (select id from me) is not null
                     and (select not exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null))
                then t.n else 0 end as n
    from unnest($7::text[], $8::uuid[], $9::uuid[], $10::text[], $11::int4[], $12::int2[], $13::int8[])
             as t(key, holder, lease, queue, n, rank, seq)
         cross join lateral (
             select ctid as place, node
             from {schema}.slot
             where job_id = t.holder and key = t.key
               and (node = $1 and t.holder = t.lease or node is null and t.holder in (select id from done))
             limit 1
             for update
         ) s
),
best as materialized (
    select t.key, b.*
    from turn t
         cross join lateral (
             select b.tid, row_number() over (order by b.rank, b.seq) as nth, b.fits, b.fresh
             from (
                 select j.ctid as tid, j.rank, j.seq,
                        j.queue = t.queue and j.kind = any ($5) and not j.admitted
                            and ((j.terms ->> 'expires')::int8 > extract(epoch from statement_timestamp()) * 1000000
                                 or (j.terms ? 'expires') is not true) as fits,
                        j.attempt = 0 and j.max_attempts > 1 as fresh
                 from {schema}.job j
                 where j.gate = t.key and j.share = '' and (j.rank, j.seq) > (t.rank, t.seq) and j.lock_owner is null
                 order by j.rank, j.seq
                 limit t.n
             ) b
         ) b
),
locked as materialized (
    select ctid as tid
    from {schema}.job
    where ctid = any (array(select tid from best)) and lock_owner is null
    for update skip locked
),
next as materialized (
    select tid, key
    from (
        -- The first of all may have been tried before, and then is alone.
        select tid, key, bool_and(fits and (nth = 1 or fresh and first_is_fresh) and tid in (select tid from locked))
                             over (partition by key order by nth) as follows
        from (select *, first_value(fresh) over (partition by key order by nth) as first_is_fresh from best) b
    ) b
    where follows
),
claimed as (
    update {schema}.job j
    set lock_owner = (select id from me), version = $6::int4, attempt = j.attempt + 1, claimed_at = clock_timestamp(), held_until = null
    where j.ctid = any (array(select tid from next))
    returning j.id, j.seq, j.version::int8, j.kind, j.rank, j.attempt, j.max_attempts, j.created_at, j.payload, j.body, j.content_type,
              j.headers, j.terms, j.admitted, j.ctid, j.queue
),
leased as (
    update {schema}.slot
    set job_id = (select lease from turn where turn.place = slot.ctid), node = $1, version = $6::int4
    where ctid = any (array(select place from turn where not leased and key in (select key from next)))
),
-- A job's own slot is freed with it (migration 18). With a lease goes all that it holds: a limit may have come since.
freed as (
    delete from {schema}.slot
    where job_id = any (array(select lease from turn where leased and key not in (select key from next))) and node = $1
    returning key
),
opened as (
    insert into {schema}.opening (key) select key from freed
)
select * from claimed
union all
select id, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null from done
