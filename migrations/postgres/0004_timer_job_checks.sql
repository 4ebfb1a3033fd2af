-- As 0005, for timers. A timer is due at some time, and its version is one that `job` can have.
set local search_path = pg_catalog, pg_temp;
alter table {schema}.timer_job
    add constraint timer_job_numbers check (
        attempt between 0 and 2000000000 and rank > -32768 and isfinite(created_at)
        and isfinite(due_at) and version between 0 and 2147483647
        and greatest(octet_length(kind), octet_length(queue)) <= 100
    ) not valid,
    add constraint timer_job_options check (
        coalesce(options, headers) is null or {schema}.is_carriable(options, headers)
    ) not valid;
