-- Times to live that began in the future begin now. Only the farthest ends are looked at: what a clock that was far ahead wrote is among them,
-- and what lies before them is late by less.
select count(*), coalesce(max((terms ->> 'expires') - (terms ->> 'ttl') - :now), 0) from jobwright_timer_job
where seq in (select seq from jobwright_timer_job where terms ->> 'expires' is not null
              order by terms ->> 'expires' desc limit :longest)
  and (terms ->> 'expires') - (terms ->> 'ttl') > :now + 1000000
