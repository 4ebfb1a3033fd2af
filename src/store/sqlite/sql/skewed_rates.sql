-- Starts in the future count as now: their real time is not known any more, and a rate is better enforced for too long than broken.
select count(*) as n, coalesce(max(at - :now), 0) as far from jobwright_rate_log
where at > :now + 1000000
