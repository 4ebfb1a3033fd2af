-- Whether nothing is left of who holds the permit: no admitted job, no ordered job that keeps its group, no handler of a cancelled job. Each
-- is looked up alone, whatever the statistics say. Of suspended jobs and dead letters an executor may read no more than the ids, so each of
-- them counts as a holder.
(select j.id from {schema}.job j where j.id = {row}.job_id and (j.admitted or j.blocked_on is not null and j.options ? 'ordered'::text) limit 1) is null
and (select j.id from {schema}.external_job j where j.id = {row}.job_id and j.admitted limit 1) is null
and (select j.id from {schema}.timer_job j where j.id = {row}.job_id and j.options ? 'ordered'::text limit 1) is null
and (select j.id from {schema}.suspended_job j where j.id = {row}.job_id limit 1) is null
and (select j.id from {schema}.dead_letter_job j where j.id = {row}.job_id limit 1) is null
and (select e.holder from {schema}.terminating_handler e where e.holder = {row}.job_id limit 1) is null
