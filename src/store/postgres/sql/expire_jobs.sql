-- Makes dead letters of what may not start any more. Owned rows are left alone, and so are those that somebody is just about to take.
-- statement_timestamp() and not clock_timestamp(), because only a stable value can be an index condition.
-- Keys of unique jobs whose period is over go too; whoever wants one does not wait for that.
with pruned as (
    delete from {schema}.unique_key
    where ctid = any (array(
        select ctid from {schema}.unique_key where expires_at <= statement_timestamp() limit $1 for update skip locked
    ))
),
gone_waiting as (
    delete from {schema}.job
    where ctid = any (array(
        select ctid
        from {schema}.job
        where terms ? 'expires' and lock_owner is null
          and (terms ->> 'expires')::int8 <= (extract(epoch from statement_timestamp()) * 1000000)::int8
        order by (terms ->> 'expires')::int8
        limit $1
        for update skip locked
    ))
    returning seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, terms
),
gone_timers as (
    delete from {schema}.timer_job
    where ctid = any (array(
        select ctid
        from {schema}.timer_job
        where terms ? 'expires'
          and (terms ->> 'expires')::int8 <= (extract(epoch from statement_timestamp()) * 1000000)::int8
        order by (terms ->> 'expires')::int8
        limit $1
        for update skip locked
    ))
    returning seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, terms
),
gone as (
    select * from gone_waiting union all select * from gone_timers
),
buried as (
    insert into {schema}.dead_letter_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, reason,
                                          payload, body, content_type, headers, errors, terms)
    select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, $2,
           payload, body, content_type, headers, errors, terms
    from gone
    on conflict (id) do nothing
)
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, tenant)
--{failed}     select id, seq, kind, queue, 'expired', attempt, created_at, terms ->> 'tenant' from gone
--{failed} )
select (select count(*) from gone),
       -- A full batch says that there may be more: look again at once.
       case when $1 in ((select count(*) from gone_waiting), (select count(*) from gone_timers)) then 0
            else (select least(
                      (select min((terms ->> 'expires')::int8) from {schema}.job
                       where terms ? 'expires' and (terms ->> 'expires')::int8 > (extract(epoch from statement_timestamp()) * 1000000)::int8),
                      (select min((terms ->> 'expires')::int8) from {schema}.timer_job
                       where terms ? 'expires' and (terms ->> 'expires')::int8 > (extract(epoch from statement_timestamp()) * 1000000)::int8)
                  ) - (extract(epoch from statement_timestamp()) * 1000000)::int8)
       end
