-- Only for ids that the sender chose: each takes one lookup in six unique indexes.
select exists (select 1 from jobwright_job where id = :id)
    or exists (select 1 from jobwright_timer_job where id = :id)
    or exists (select 1 from jobwright_suspended_job where id = :id)
    or exists (select 1 from jobwright_dead_letter_job where id = :id)
    or exists (select 1 from jobwright_external_job where id = :id)
    or exists (select 1 from jobwright_blocked_job where id = :id)
