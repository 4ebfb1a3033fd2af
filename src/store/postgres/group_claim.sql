-- name: complete_and_claim_next
-- Removes finished jobs of groups (as `complete_holding` does) and goes on with their groups: claims the next jobs of each, for a node
-- that runs them one after the other and meanwhile holds the group by a lease. One commit does what an outcome, an admission pass and a
-- claim would do in turn, for several jobs. The group is never free in between, and no admission pass is needed.
-- It takes for each group (:keys to :after_seqs) its key; its present holder, a job that is removed here or a lease of this node; the lease;
-- the queue; how many jobs are wanted (0: none, and the group becomes free); and where the last ones of this run ended, so that rows that
-- died since are not scanned.
-- The next jobs are the best ones blocked on the key, and no others: up to the first that is in another queue, of another kind, expired, or
-- locked. If there are none, the group becomes free. It also does if any rule limits or pauses jobs, because only an admission pass can
-- judge that, and if the node is dead, because `me` locks the node as a claim does.
-- Only fresh jobs follow another. A job with a spent attempt may have killed its process, and only running it alone shows whether it did. A
-- job with a single attempt must not lose it in a run.
-- The permit is locked before anything is taken. The caller may have given up on this statement, and another process may just be releasing
-- its lease.
-- No join: each step is a lateral index lookup. A permit is found by its ctid when it gets its new holder. Nothing else moves it, because
-- its holder is a job that is removed here, or a lease of this node. The number of the claim (:claim) is the claimer's own, as in
-- `claim`.
-- :node::int8, :ids::uuid[], :versions::int8[], :locations::tid[], :kinds::text[], :claim::int4, :keys::text[], :holders::uuid[],
-- :leases::uuid[], :queues::text[], :wanted::int4[], :after_ranks::int2[], :after_seqs::int8[]
with me as materialized (
    select {schema}.hold_node(:node) as id
),
done as (
    delete from {schema}.job j
    where (select set_config('jobwright.ended', (:ids::uuid[])::text, true)) is not null
      and {briefly}
      and j.ctid = any (:locations::tid[])
      and j.lock_owner = :node
      and ((j.id, j.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
    returning j.id
--{all} , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant'::text as tenant
),
--{all} {remembered_done},
turn as materialized (
    select t.key, t.lease, t.queue, t.rank, t.seq, s.place, s.node is not null as leased,
           case when (select id from me) is not null
                     and (select not exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null))
                then t.n else 0 end as n
    from unnest(:keys::text[], :holders::uuid[], :leases::uuid[], :queues::text[], :wanted::int4[], :after_ranks::int2[], :after_seqs::int8[])
             as t(key, holder, lease, queue, n, rank, seq)
         cross join lateral (
             select ctid as place, node
             from {schema}.permit
             where job_id = t.holder and key = t.key
               and (node = :node and t.holder = t.lease or node is null and t.holder in (select id from done))
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
                        j.queue = t.queue and j.kind = any (:kinds) and not j.admitted
                            and ((j.options ->> 'expires'::text)::int8 > (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
                                 or (j.options ? 'expires'::text) is not true) as fits,
                        j.attempt = 0 and j.max_attempts > 1 as fresh
                 from {schema}.job j
                 where j.blocked_on = t.key and j.share = '' and (j.rank, j.seq) > (t.rank, t.seq) and j.lock_owner is null
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
        -- The first of all may have been tried before, and then runs alone.
        select tid, key, bool_and(fits and (nth = 1 or fresh and first_is_fresh) and tid in (select tid from locked))
                             over (partition by key order by nth) as follows
        from (select *, first_value(fresh) over (partition by key order by nth) as first_is_fresh from best) b
    ) b
    where follows
),
claimed as (
    update {schema}.job j
    set lock_owner = (select id from me), version = :claim::int4, attempt = j.attempt + 1, claimed_at = clock_timestamp(), visible_at = null
    where j.ctid = any (array(select tid from next))
    returning {job:j}, j.ctid
),
leased as (
    update {schema}.permit
    set job_id = (select lease from turn where turn.place = permit.ctid), node = :node, version = :claim::int4
    where ctid = any (array(select place from turn where not leased and key in (select key from next)))
),
-- A trigger releases a job's own permit with it. With a lease, all that it holds is released: a limit may have been set since.
freed as (
    delete from {schema}.permit
    where job_id = any (array(select lease from turn where leased and key not in (select key from next))) and node = :node
    returning key
),
unblocked as (
    insert into {schema}.unblock (key) select key from freed
)
-- The claimed jobs and the completed ones: never joined, only one below the other.
select claimed.*, done.id as done
from claimed full join done on false
