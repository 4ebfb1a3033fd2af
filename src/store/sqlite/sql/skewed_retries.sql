-- Attempts that failed in the future failed now: the delay before the next one is counted from here. Only the farthest timers are checked.
-- A requested delay is left alone, and so is a timer that is due before that failure: it was repaired before.
select count(*) as n, coalesce(max(cast(unixepoch(errors ->> '$[#-1].at', 'subsec') * 1000000 as integer) - :now), 0) as far from jobwright_timer_job
where seq in (select seq from jobwright_timer_job order by due_at desc limit :longest)
  and cast(unixepoch(errors ->> '$[#-1].at', 'subsec') * 1000000 as integer) > :now + 1000000 and due_at > cast(unixepoch(errors ->> '$[#-1].at', 'subsec') * 1000000 as integer)
