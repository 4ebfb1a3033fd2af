-- name: own_filter
(:ids::uuid[] is null or id = any (:ids))
      and (:queue::text is null or queue = :queue)
      and (:kind::text is null or kind = :kind)
      and (:error::text is null or strpos(errors -> -1 ->> 'error'::text, :error) > 0)
      and (:created_since::timestamptz is null or created_at >= :created_since)
      and (:created_until::timestamptz is null or created_at < :created_until)
      and (:options::jsonb is null or options @> :options)

-- name: briefly
-- A statement that carries the work of several waits for no row, key or id for longer than this (in milliseconds): one that an application or an
-- operator has locked must not hold up the others. The server then ends the statement with `lock_not_available`, and the caller finds out which it
-- was (`held_jobs`, or by halving). It holds for the transaction of the statement alone, so it needs no setting of the session, which a pooler
-- would share. The subselect depends on no row, so it runs once, before a row is read. Locks of whole tables are taken before that, and are
-- waited for.
(select set_config('lock_timeout', '300', true)) is not null

-- name: buried
-- Rows that become dead letters because no statement can carry them on (`gone`, with the reason `why` and how many attempts they cost,
-- `cost`): what does not fit is cut or left out, and the record says what it was. Content is moved without being looked at.
buried as materialized (
    select *, least(greatest(attempt, 0), 1999999999) + cost as attempts, {fit_options} as fit from gone
),
dead_lettered as (
    insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
    select {repaired}, version::int8 & 2147483647::int8, attempts, why,
           {kept_errors:b} || jsonb_strip_nulls(jsonb_build_object(
               'attempt', attempts, 'at', clock_timestamp(), 'node', :node::int8, 'error', why,
               'detail', nullif(concat_ws('; ',
                   case when octet_length(kind) > 100 then 'the kind was ' || left(kind, 300) end,
                   case when octet_length(queue) > 100 then 'the queue was ' || left(queue, 300) end,
                   case when not isfinite(created_at) then 'it was sent at '::text || created_at::text end,
                   case when fit is distinct from options and pg_column_size(options) <= 4096 then 'the options were ' || left(options::text, 1000) end
               ), ''))),
           fit
    from buried b
    on conflict (id) do nothing
)

-- name: counted
-- Whether claims count what the rule `r` limits: they can count this rule, and all other limits too (`allowance` in the schema).
({schema}.is_simple(r.scope, r.name, r.shares)
 and (select not exists (select from {schema}.rule o
                         where (o.running is not null or o.rate is not null) and not {schema}.is_simple(o.scope, o.name, o.shares))))

-- name: covers
-- Whether the rule `r` applies to a row in its scope: by name, or as the rule for all that have none of their own. A pause of all applies
-- to all.
-- (Whatever else such a rule limits makes no difference to rows with their own rule: none of them starts.)
(
    {schema}.subject(r.scope, {row}.queue, {row}.kind, {row}.options) = r.name
    or r.name = '*' and {schema}.subject(r.scope, {row}.queue, {row}.kind, {row}.options) is not null
       and (r.paused or not exists (select from {schema}.rule own
                       where own.scope = r.scope and own.name = {schema}.subject(r.scope, {row}.queue, {row}.kind, {row}.options)))
)

-- name: first_submissions
-- Records first submissions with their digests, unless their ids are those of other jobs. The ids are locked in order.
chosen as materialized (
    select d.job_id, d.known
    from {schema}.decide_ids(
        case when (select set_config('lock_timeout', :lock_timeout, true)) is not null then :id::uuid[] end,
        :kind::text[], :queue::text[]
    ) d
),
novel as (
    insert into {schema}.submission (id, digest)
    select s.id, s.digest
    from unnest(:id::uuid[], :digests::bytea[]) as s(id, digest)
    where s.id in (select c.job_id from chosen c where (c.known <> 'same'::text) is not true)
    order by s.id
    on conflict (id) do nothing
    returning id
)

-- name: fit_numbers
-- Assignments that make a row fit the constraints of its table, but for its content and options.
kind = case when octet_length({row}.kind) <= 100 then {row}.kind else left({row}.kind, 25) end,
attempt = least(greatest({row}.attempt, 0), 2000000000),
rank = greatest({row}.rank, (-32767)::int2),
created_at = case when isfinite({row}.created_at) then {row}.created_at else clock_timestamp() end

-- name: fit_options
-- The options of a row that becomes a dead letter, without those that no statement could carry on: it may be retried, and nothing may stop the
-- jobs that are retried with it. (`::text` quotes a text, so a number in quotes is no number.)
case when jsonb_typeof(options) = 'object' and pg_column_size(options) <= 131072 and octet_length(options::text) <= 16384
     then options - array_remove(array[
         case when jsonb_typeof(options -> 'group'::text) <> 'string' or octet_length(options ->> 'group'::text) > 200 then 'group' end,
         case when jsonb_typeof(options -> 'tenant'::text) <> 'string' or octet_length(options ->> 'tenant'::text) > 200 then 'tenant' end,
         case when jsonb_typeof(options -> 'limit'::text) <> 'string' or octet_length(options ->> 'limit'::text) > 200 then 'limit' end,
         case when (options -> 'ttl'::text)::text !~ '^[0-9]{1,16}$' then 'ttl' end,
         case when (options -> 'expires'::text)::text !~ '^[0-9]{1,16}$' then 'expires' end,
         case when (options -> 'aged'::text)::text !~ '^[0-9]{1,5}$' then 'aged' end
     ], null)
     end

-- name: given_ids
-- What is known of the ids that senders chose. Materialized, so that it waits for other senders of these ids only once.
chosen as materialized (
    select d.job_id, d.known
    from {schema}.decide_ids(
        case when true = any (:given::bool[]) then array(select g.id from unnest(:id::uuid[], :given::bool[]) as g(id, given) where g.given) end,
        case when true = any (:given::bool[]) then array(select g.kind from unnest(:kind::text[], :given::bool[]) as g(kind, given) where g.given) end,
        case when true = any (:given::bool[]) then array(select g.queue from unnest(:queue::text[], :given::bool[]) as g(queue, given) where g.given) end
    ) d
)

-- name: kept_errors
-- The errors of a job with a place for one more: the newest, if there are as many as a job keeps. Anything else than a list is dropped, and
-- so is a list of a size that no build writes: it must not keep other jobs of the same statement from going on.
case when jsonb_typeof({row}.errors) = 'array' and pg_column_size({row}.errors) <= 65536
     then case when jsonb_array_length({row}.errors) < {errors_kept} then {row}.errors
               else jsonb_path_query_array({row}.errors, 'lax $[last - {errors_kept} + 2 to last]') end
     else '[]' end

-- name: unexpired
-- Whether a waiting row `c` has a time to live that is not over, or none.
(c.options is null or (c.options ->> 'expires'::text)::int8 > (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
    or (c.options ? 'expires'::text) is not true)

-- name: visible
-- Whether a waiting row `c` is left to no delivery. One that is hidden for longer than anything asks for was written by a clock that ran ahead (MAX_HIDDEN).
(c.visible_at is null or c.visible_at <= statement_timestamp() or c.visible_at > statement_timestamp() + interval '120 seconds')

-- name: awaits_admission
-- Whether an admission pass has to decide about a waiting row `c`: a rule covers it that claims do not count themselves. The argument says whether the
-- claims of its queue count at all.
exists (
    select from {schema}.rule r
    where (r.paused or r.running is not null or r.rate is not null)
      and (not {argument} or r.paused or not {counted})
      and {covers:c}
)

-- name: may_start
-- Whether a waiting row `c` may be claimed: it has not expired, no rule pauses it, and it was admitted if a limit covers it. The first
-- check of the rules runs once per statement: without rules a row costs no more than that.
(
    {unexpired}
    and (
        (select not exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null))
        or not exists (
            select from {schema}.rule r
            where (r.paused or not c.admitted and (r.running is not null or r.rate is not null)) and {covers:c}
        )
    )
)

-- name: old
-- The oldest jobs of a queue by priority, waiting or blocked on its key, and how many steps each has waited (see `age`).
ranks as (
    (select c.rank from {schema}.job c where c.queue = :queue and c.lock_owner is null and c.blocked_on is null order by c.rank limit 1)
    union all
    select (select c.rank from {schema}.job c where c.queue = :queue and c.rank > ranks.rank and c.lock_owner is null and c.blocked_on is null order by c.rank limit 1)
    from ranks
    where ranks.rank is not null
),
blocked_ranks as (
    (select b.share, b.rank from {schema}.job b where b.blocked_on = :blocked_on order by b.share, b.rank limit 1)
    union all
    select n.share, n.rank
    from blocked_ranks r
    cross join lateral (
        select b.share, b.rank
        from {schema}.job b
        where b.blocked_on = :blocked_on and (b.share, b.rank) > (r.share, r.rank)
        order by b.share, b.rank
        limit 1
    ) n
),
oldest as materialized (
    select c.tid, c.id, c.rank, c.aged, c.created_at
    from ranks r
    cross join lateral (
        select j.ctid as tid, j.id, j.rank, j.options -> 'aged'::text as aged, j.created_at
        from {schema}.job j
        where j.queue = :queue and j.rank = r.rank and j.lock_owner is null and j.blocked_on is null
        order by j.seq
        limit :limit
        for update skip locked
    ) c
    where r.rank is not null
    union all
    select c.tid, c.id, c.rank, c.aged, c.created_at
    from blocked_ranks r
    cross join lateral (
        select b.ctid as tid, b.id, b.rank, b.options -> 'aged'::text as aged, b.created_at
        from {schema}.job b
        where b.blocked_on = :blocked_on and b.share = r.share and b.rank = r.rank and b.lock_owner is null
        order by b.seq
        limit :limit
        for update skip locked
    ) c
),
old as materialized (
    select c.tid, c.id, n.aged,
           greatest(0, least(floor(extract(epoch from statement_timestamp() - n.since)::float8 * 1000000::float8 / :aging_us::float8)::int8,
                             c.rank + 32767 + n.aged)) as steps
    from oldest c
    cross join lateral (
        select case when jsonb_typeof(c.aged) = 'number' then least(greatest((c.aged #>> '{}'::text[])::numeric, 0), 65535)::int8 else 0 end as aged,
               least(greatest(c.created_at, statement_timestamp() - interval '10 years'), statement_timestamp() + interval '10 years') as since
    ) n
)

-- name: orphaned
-- Whether nothing is left of who holds the permit: no admitted job, no ordered job that keeps its group, no handler of a cancelled job. Each
-- is looked up alone, whatever the statistics say. Of suspended jobs and dead letters an executor may read no more than the ids, so each of
-- them counts as a holder.
(select j.id from {schema}.job j where j.id = {row}.job_id and (j.admitted or j.blocked_on is not null and j.options ? 'ordered'::text) limit 1) is null
and (select j.id from {schema}.external_job j where j.id = {row}.job_id and j.admitted limit 1) is null
and (select j.id from {schema}.timer_job j where j.id = {row}.job_id and j.options ? 'ordered'::text limit 1) is null
and (select j.id from {schema}.suspended_job j where j.id = {row}.job_id limit 1) is null
and (select j.id from {schema}.dead_letter_job j where j.id = {row}.job_id limit 1) is null
and (select e.holder from {schema}.terminating_handler e where e.holder = {row}.job_id limit 1) is null

-- name: queue_open
-- Whether a queue is not paused: checked once per statement, before a row of it is read.
(select not exists (
    select from {schema}.rule r
    where r.scope = 'queue' and r.paused
      and r.name in ({argument}, '*')
))

-- name: renewed
-- The options of a retried dead letter: its time to live starts again.
case when jsonb_typeof(options -> 'ttl'::text) = 'number'
     then options || jsonb_build_object('expires', (extract(epoch from clock_timestamp())::float8 * 1000000::float8)::int8 + {ttl})
     else options
end

-- name: state
-- The state of a row of `job`. An owned row may have a key too: a node runs it in a group run, and if it is released it is blocked on the
-- key again.
case when lock_owner is not null then 'running' when blocked_on is not null then 'blocked' else 'waiting' end

-- name: taken_back
-- Makes the rows of `back` wait again, which were handed out. The token of a hand-out is longer than the number of a claim. 31 bits of it stay in the
-- row, so that earlier deliveries no longer match.
insert into {schema}.job ({carried}, version, attempt, errors, options, admitted)
select {carried}, version & 2147483647::int8, greatest(attempt - 1, 0), errors, options, admitted
from back
on conflict (id) do nothing
returning id

-- name: ttl
-- A time to live, in microseconds. It may have been written by hand, and nothing may overflow.
least(greatest(floor((options ->> 'ttl'::text)::numeric), 0), 4000000000000000)::int8

-- name: uncounted_usage
-- Whether claims keep the count `u` of `usage` no more. Each key is judged by the rule that applies to it: its own, or the rule for all.
not exists (
    select from (
        select r.scope, r.name, r.shares, r.running
        from {schema}.rule r
        where r.scope = case left(u.key, 2) when 'q:' then 'queue' else 'kind' end and r.name in (substr(u.key, 3), '*')
        order by r.name = '*'
        limit 1
    ) r
    where r.running is not null and {counted}
)

-- name: uncovered
-- Whether a waiting row `c` may be taken by a claim that counts: it has not expired, and no rule pauses or limits it, apart from those that
-- this claim counts: that of its queue (:queue_counted), that of its one kind (:kind_counted). The first check of the rules runs once
-- per statement.
(
    {unexpired}
    and (
        (select not exists (
            select from {schema}.rule r
            where (r.paused or r.running is not null or r.rate is not null)
              and not (not r.paused and (select simple from quota) and {schema}.is_simple(r.scope, r.name, r.shares) and (r.scope = 'queue' and :queue_counted::bool or r.scope = 'kind' and :kind_counted::bool))
              and (r.scope <> 'queue' or r.name in (:queue, '*'))
              and (r.scope <> 'kind' or r.name = '*' or r.name = any (:kinds::text[]))
        ))
        or not exists (
            select from {schema}.rule r
            where (r.paused or r.running is not null or r.rate is not null)
              and not (not r.paused and (select simple from quota) and {schema}.is_simple(r.scope, r.name, r.shares) and (r.scope = 'queue' and :queue_counted::bool or r.scope = 'kind' and :kind_counted::bool))
              and {covers:c}
        )
    )
)

-- name: owned_unknown
-- Whether this node owns a row without knowing it. Claims are compared, and not jobs: the old handler of an id that was cancelled and sent again
-- does not account for the row of a later claim. `is not true` keeps the planner from turning that into a join: the known claims are hashed once.
-- Claims that began after the known claims were listed are left alone: their numbers come after :before (numbers wrap around, so the
-- nearer half of the circle is "after"). So claims need not stop for the walk.
lock_owner = :node
  and ((id, version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is not true
  and (:before::int4 is null or (version::int8 - :before + 2147483648) % 2147483648 >= 1073741824)

-- name: sampled
-- A sample of the pages of a table (`row` is its name), between :pages and half as many, or the whole table if it has no more. The same pages are read each time, so what
-- is estimated from them does not jump. An alias can't follow: select from it.
{schema}.{row} tablesample system (100::float8 * {share:{row}}) repeatable (0)

-- name: share
-- Which share of a table such a sample is: a power of two, so that it stays the same while the table grows, until it is twice as large. An estimate then rises
-- only if rows come, and an alert on its rise is not one on chance.
least(1::float8, power(2::float8, floor(ln(:pages::float8 * current_setting('block_size')::float8
                                           / greatest(pg_relation_size('{schema}.{row}'), 1)::float8) / ln(2::float8))))

-- name: schedules
-- Schedules, as they are read.
select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at,
           last_job, fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
    from {schema}.schedule

-- name: sent_columns
-- What a flush knows of each of its messages (`m`): when it is due, and its options. A time to live begins with the flush, by this server's clock.
select m.*, coalesce(m.at, moment.now + m.delay_us::float8 * interval '1 microsecond') as due_at, moment.now as now,
           case when m.asked ? 'ttl'::text
                then m.asked || jsonb_build_object('expires', (extract(epoch from moment.now)::float8 * 1000000::float8)::int8 + (m.asked ->> 'ttl'::text)::int8)
                else m.asked
           end as options

-- name: numbered
-- The new messages of a flush (`fresh`), with their order of sending. The sequence is read here and not by the defaults of two tables, so that a
-- delayed message keeps its place among the others.
msg as materialized (
    select fresh.*, nextval('{schema}.job_seq') as seq from fresh
)

-- name: blocked_and_later
-- A flush after its jobs that are due (`ready`). One of a group is blocked on its key until it is admitted: no claim takes it before, and its sender
-- waits for no other sender of the group. Messages that are due later become timers. The statement says what it wants back of them.
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from ready where blocked_on is not null
),
later as (
    insert into {schema}.timer_job ({carried}, due_at, options)
    select m.seq, m.now, {content_values:m}, m.due_at, m.options
    from msg m
    where m.due_at > m.now
    order by m.n
    on conflict (id) do nothing

-- name: remembered_done
-- The history of jobs that this statement removes because they are done (`done`).
remembered as (
     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, :node, tenant from done
 )

-- name: watched
-- The heartbeats of the nodes that :node watches (`watched_heartbeats`): a range of the ids, up to the eighth that lives, or all.
last_watcher as materialized (
    select max(id) as id from (select id from {schema}.node where dead_at is null order by id limit 8) first
),
watched as materialized (
    select id, heartbeats, (extract(epoch from lease)::float8 * 1000000::float8)::int8 as lease_us, dead_at is not null as dead
    from {schema}.node
    where :node::int8 is not null and id <= (select case when :node::int8 <= id then 2147483647 else coalesce(id, 2147483647) end from last_watcher)
)
