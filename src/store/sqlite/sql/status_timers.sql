-- Overdue timers show that no executor promotes them.
select queue, count(*), count(*) filter (where due_at <= :now) from jobwright_timer_job group by queue
