-- Removes the progress of jobs that are gone. No trigger removes it with its job: that would cost all jobs, and few have any. There are few
-- rows: those of running jobs, and of jobs that ended since the last check. A job that moves from table to table meanwhile is found in one
-- of them, because a statement sees all tables in the same snapshot. Each job is looked up separately, whatever the statistics say.
-- The offset and the brief wait are as in prune_history.sql.
-- :limit::int8, :offset::int8
with gone as (
    delete from {schema}.progress p
    where {briefly} and p.ctid = any (array(
        select o.ctid
        from {schema}.progress o
        where (select id from {schema}.job where id = o.job_id limit 1) is null
          and (select id from {schema}.external_job where id = o.job_id limit 1) is null
          and (select id from {schema}.timer_job where id = o.job_id limit 1) is null
          and (select id from {schema}.suspended_job where id = o.job_id limit 1) is null
          and (select id from {schema}.dead_letter_job where id = o.job_id limit 1) is null
        limit :limit offset :offset
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
