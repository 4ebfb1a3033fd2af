-- Repairs the rows that skewed_retries.sql finds.
update jobwright_timer_job
set due_at = due_at - (cast(unixepoch(errors ->> '$[#-1].at', 'subsec') * 1000000 as integer) - :now)
where seq in (select seq from jobwright_timer_job order by due_at desc limit :longest)
  and cast(unixepoch(errors ->> '$[#-1].at', 'subsec') * 1000000 as integer) > :now + 1000000 and due_at > cast(unixepoch(errors ->> '$[#-1].at', 'subsec') * 1000000 as integer)
