-- Sets a rule, whatever it was before.
insert into jobwright_rule (scope, name, paused, running, rate, period, aging, depth, shares, changed_at)
values (:scope, :name, :paused, :running, :rate, :period, :aging, :depth, :shares, :now)
on conflict (scope, name) do update
set paused = excluded.paused, running = excluded.running, rate = excluded.rate, period = excluded.period,
    aging = excluded.aging, depth = excluded.depth, shares = excluded.shares, changed_at = excluded.changed_at
