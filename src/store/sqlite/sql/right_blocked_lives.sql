-- What ahead_blocked_lives.sql finds.
update jobwright_blocked_job
set terms = json_set(terms, '$.expires', :now + (terms ->> 'ttl'))
where seq in (select seq from jobwright_blocked_job where terms ->> 'expires' is not null
              order by terms ->> 'expires' desc limit :longest)
  and (terms ->> 'expires') - (terms ->> 'ttl') > :now + 1000000
