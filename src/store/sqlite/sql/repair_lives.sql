-- Repairs the rows that skewed_lives.sql finds.
update jobwright_job
set options = json_set(options, '$.expires', :now + (options ->> 'ttl'))
where seq in (select seq from jobwright_job where options ->> 'expires' is not null and lock_owner is null
              order by options ->> 'expires' desc limit :longest)
  and (options ->> 'expires') - (options ->> 'ttl') > :now + 1000000
