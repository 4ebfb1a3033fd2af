-- Has whatever waits for a rule looked at again: behind its own gate, or, for the rule of all ('*'), behind every gate of its scope.
insert into jobwright_opening (key, n)
select distinct gate, 100 from jobwright_blocked_job
where gate = :gate or :name = '*' and substr(gate, 1, 2) = :prefix
