-- Read from the index, the longest overdue first.
select seq, attempt, max_attempts, errors, kind, headers, admitted from jobwright_external_job
where lease_until <= :now
order by lease_until limit :limit
