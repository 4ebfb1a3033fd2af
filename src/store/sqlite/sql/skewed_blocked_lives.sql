-- Times to live that began in the future begin now. Only the farthest ends are checked: what a clock that was far ahead wrote is among
-- them, and nearer ones are late by less.
select count(*) as n, coalesce(max((options ->> 'expires') - (options ->> 'ttl') - :now), 0) as far from jobwright_blocked_job
where seq in (select seq from jobwright_blocked_job where options ->> 'expires' is not null
              order by options ->> 'expires' desc limit :longest)
  and (options ->> 'expires') - (options ->> 'ttl') > :now + 1000000
