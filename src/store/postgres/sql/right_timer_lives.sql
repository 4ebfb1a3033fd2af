-- Times to live of timer jobs that began in the future begin now. Only the farthest ends are looked at: what a clock that was far ahead wrote
-- is among them, and what lies before them is late by less. They are read from the end of their index.
with ahead as materialized (
    select j.ctid as tid,
           (j.terms ->> 'expires')::int8 - (j.terms ->> 'ttl')::int8 - (extract(epoch from statement_timestamp()) * 1000000)::int8 as by
    from {schema}.timer_job j
    where j.ctid = any (array(
        select c.ctid
        from {schema}.timer_job c
        where c.terms ? 'expires'
        order by (c.terms ->> 'expires')::int8 desc
        limit $1
    ))
      and (j.terms ->> 'expires')::int8 - (j.terms ->> 'ttl')::int8 > (extract(epoch from statement_timestamp()) * 1000000)::int8 + 1000000
    for update skip locked
),
righted as (
    update {schema}.timer_job j
    set terms = jsonb_set(j.terms, '{expires}', to_jsonb((j.terms ->> 'expires')::int8 - ahead.by))
    from ahead
    where j.ctid = ahead.tid
)
select count(*), coalesce(max(by), 0)::int8 from ahead
