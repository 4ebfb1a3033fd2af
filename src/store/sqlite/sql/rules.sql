-- All rules; there are few.
select scope, name, paused, running, rate, period, aging, depth, shares from jobwright_rule order by scope, name
