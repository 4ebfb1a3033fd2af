-- What ahead_lives.sql finds.
update jobwright_job
set terms = json_set(terms, '$.expires', :now + (terms ->> 'ttl'))
where seq in (select seq from jobwright_job where terms ->> 'expires' is not null and lock_owner is null
              order by terms ->> 'expires' desc limit :longest)
  and (terms ->> 'expires') - (terms ->> 'ttl') > :now + 1000000
