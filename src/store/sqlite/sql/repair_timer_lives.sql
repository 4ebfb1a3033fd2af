-- Repairs the rows that skewed_timer_lives.sql finds.
update jobwright_timer_job
set options = json_set(options, '$.expires', :now + (options ->> 'ttl'))
where seq in (select seq from jobwright_timer_job where options ->> 'expires' is not null
              order by options ->> 'expires' desc limit :longest)
  and (options ->> 'expires') - (options ->> 'ttl') > :now + 1000000
