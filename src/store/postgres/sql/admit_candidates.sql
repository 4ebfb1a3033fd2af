-- Takes gates that opened, and reads the best behind each of them: so many in each share as were asked for, at most $1. Then the
-- first waiting rows of these queues that a rule covers, among the first $4 (claims walk over the same ones). If claims count by
-- themselves ($6), only those that need more than that.
-- A gate's shares are found by steps through the index, one for each share: they may be few, and what waits a million.
-- Of a gate all openings are taken that are among the first five times $5: a bulk of jobs writes one for each flush. The answer says whether there may be
-- more, because nobody else will (`seq` of a gate).
with noted as materialized (
    select ctid as tid, key from {schema}.opening where opens_at <= statement_timestamp() limit 5 * $5::int8
),
keys as materialized (
    select distinct key from (select key from noted limit $5) first
),
opened as (
    delete from {schema}.opening
    where ctid = any (array(select tid from noted where (key in (select key from keys)) is true))
    returning key, n
),
gates as materialized (
    -- Of a group one can pass, however many came: each of them has opened its gate for one.
    select key, least(case when key like 'g:%' then max(n) else sum(n) end, $1::int8) as n from opened group by key
),
shares as materialized (
    select g.key, g.n, s.share
    from (
        -- Nobody can pass into a group that is taken. Whoever frees it opens it. A look by the index for each, and no join.
        select key, n from gates where key not like 'g:%' or (select s.ctid from {schema}.slot s where s.key collate "C" = gates.key limit 1) is null offset 0
    ) g
    cross join lateral (
        with recursive step as (
            (select b.share from {schema}.job b where b.gate = g.key order by b.share limit 1)
            union all
            select (select b.share from {schema}.job b where b.gate = g.key and b.share > step.share order by b.share limit 1)
            from step
            where step.share is not null
        )
        select share from step where share is not null
    ) s
)
select true as blocked, b.id, b.seq, b.rank, b.kind, b.queue, b.terms, b.admitted, b.gate, b.share, null::text as opened, null::int8 as n
from shares s
cross join lateral (
    select *
    from {schema}.job b
    -- What is owned runs already, under the lease of a node.
    where b.gate = s.key and b.share = s.share and b.lock_owner is null
    order by b.rank, b.seq
    limit s.n
) b
union all
-- An ordered job that waits behind its own group: it is the one that can go, whoever is better. By steps, and not by joins: those compared each
-- gate with each slot, 180 ms for a thousand of them.
select true, b.id, b.seq, b.rank, b.kind, b.queue, b.terms, b.admitted, b.gate, b.share, null, null
from (select key from gates where key like 'g:%' offset 0) g
cross join lateral (select job_id from {schema}.slot where key collate "C" = g.key and node is null offset 0) s
cross join lateral (select * from {schema}.job where id = s.job_id and coalesce(gate, '') = g.key and lock_owner is null offset 0) b
union all
select false, w.id, w.seq, w.rank, w.kind, w.queue, w.terms, false, '', '', null, null
from (select unnest($2::text[]) as name) q
cross join lateral (
    select *
    from (
        select c.*
        from {schema}.job c
        where c.queue = q.name
          and c.lock_owner is null
          and c.gate is null
          and not c.admitted
          and ($3::text[] is null or c.kind = any ($3))
          -- A queue that is paused stays as it is: no claim looks into it.
          and {queue_open:q.name}
        order by c.rank, c.seq
        limit $4
    ) c
    where exists (
        select from {schema}.rule r
        where (r.paused or r.running is not null or r.rate is not null)
          and (not $6::bool or r.paused or not {counted})
          and {covers:c}
    )
    limit $1
) w
union all
select null, null, (select count(*) >= 5 * $5::int8 or count(*) > (select count(*) from opened) from noted)::int::int8, null, null, null, null, null, null,
       null, key, n
from gates
