-- Overdue timers show that no executor promotes them.
select queue, count(*) as jobs, count(*) filter (where due_at <= :now) as overdue from jobwright_timer_job group by queue
