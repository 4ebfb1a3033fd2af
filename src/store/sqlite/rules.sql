-- name: rules
-- All rules; there are few.
select scope, name, paused, running, rate, period, aging, depth, shares from jobwright_rule order by scope, name

-- name: put_rule
-- Sets a rule, whatever it was before.
insert into jobwright_rule (scope, name, paused, running, rate, period, aging, depth, shares, changed_at)
values (:scope, :name, :paused, :running, :rate, :period, :aging, :depth, :shares, :now)
on conflict (scope, name) do update
set paused = excluded.paused, running = excluded.running, rate = excluded.rate, period = excluded.period,
    aging = excluded.aging, depth = excluded.depth, shares = excluded.shares, changed_at = excluded.changed_at

-- name: remove_rule
-- Removes a rule that sets nothing.
delete from jobwright_rule where scope = :scope and name = :name

-- name: unblock_keys
-- Unblocks the keys that a rule concerns: its own, or, for the rule for all ('*'), every key of its scope.
insert into jobwright_unblock (key, n)
select distinct blocked_on, 100 from jobwright_job
where blocked_on is not null and (blocked_on = :blocked_on or :name = '*' and substr(blocked_on, 1, 2) = :prefix)

-- name: permit_running
-- Marks the jobs as admitted that started before there was the limit; their permits follow, from the same rows: running ones, also at external workers,
-- and those that were admitted and wait. Of blocked jobs, only suspects hold what they were given; others wait for their permits. Three indexes of few
-- rows find them.
update jobwright_job as job set admitted = 1
where seq in (
    select seq from jobwright_job where lock_owner is not null
    union all
    select seq from jobwright_job where lease_until is not null
    union all
    select seq from jobwright_job where admitted and (state = 'waiting' or blocked_on = 'alone')
)
  and exists (select 1 from jobwright_rule r where r.scope = :scope and r.name = :name and r.running is not null and {covers})
returning id, queue, kind, options

-- name: take_permit
-- Takes the permit, if the job does not hold it yet.
insert into jobwright_permit (job_id, key) values (:id, :key) on conflict do nothing
