-- A job that was handed out in the future counts as handed out now, and its lease keeps its length. A lease that was extended while the
-- clock was ahead ends no later than the longest that a worker may ask for (:longest_us), or the one that it was handed out with.
-- :longest_us::int8
with ahead as materialized (
    select ctid as tid, greatest(handed_at - statement_timestamp(), interval '0') as early,
           extract(epoch from lease_until - statement_timestamp() - lease)::float8 * 1000000::float8 as by
    from {schema}.external_job
    where handed_at > statement_timestamp() + interval '1 second'
       or lease_until > statement_timestamp() + interval '1 second' + greatest(lease, :longest_us::float8 * interval '1 microsecond')
    for update skip locked
),
repaired as (
    update {schema}.external_job e
    set handed_at = e.handed_at - ahead.early,
        lease_until = least(e.lease_until - ahead.early,
                            statement_timestamp() + greatest(e.lease, :longest_us::float8 * interval '1 microsecond'))
    from ahead
    where e.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead
