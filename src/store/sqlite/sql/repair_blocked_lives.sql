-- Repairs the rows that skewed_blocked_lives.sql finds.
update jobwright_blocked_job
set options = json_set(options, '$.expires', :now + (options ->> 'ttl'))
where seq in (select seq from jobwright_blocked_job where options ->> 'expires' is not null
              order by options ->> 'expires' desc limit :longest)
  and (options ->> 'expires') - (options ->> 'ttl') > :now + 1000000
