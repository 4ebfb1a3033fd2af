-- One row per call: prepared once, within one transaction, a row costs a few microseconds. The same message twice is one job.
insert into jobwright_job ({content}, seq, created_at, version, attempt, lock_owner, claimed_at, visible_at, options)
values ({content_values}, :seq, :now, :version, :attempt, :owner, :claimed_at, :visible_at, :options)
on conflict (id) do nothing
