-- The state of a row of `job`. One that is owned may have a gate too: a node runs it in its group's line, and if it is given back it waits there.
case when lock_owner is not null then 'running' when gate is not null then 'blocked' else 'waiting' end
