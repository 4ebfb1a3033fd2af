-- Locks these jobs and timers until the end of the transaction. Statements that pass over locked rows then leave them alone
-- (store/postgres/aside.rs). Rows that others have locked are left alone anyway.
-- :ids::uuid[]
with held_jobs as (
    select id from {schema}.job where id = any (:ids::uuid[]) for update skip locked
),
held_timers as (
    select id from {schema}.timer_job where id = any (:ids::uuid[]) for update skip locked
)
select (select count(*) from held_jobs) + (select count(*) from held_timers)
