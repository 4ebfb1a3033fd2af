-- As which job an id is known: its kind, its queue, and the queue that it was sent to if it was moved since. Only for ids that the sender chose: each
-- takes one lookup in six unique indexes.
with found(kind, queue, options) as (
    select kind, queue, options from jobwright_job where id = :id
    union all
    select kind, queue, options from jobwright_timer_job where id = :id
    union all
    select kind, queue, options from jobwright_suspended_job where id = :id
    union all
    select kind, queue, options from jobwright_dead_letter_job where id = :id
    union all
    select kind, queue, options from jobwright_external_job where id = :id
    union all
    select kind, queue, options from jobwright_blocked_job where id = :id
)
select kind, queue, case when json_valid(options) then json_extract(options, '$.sentTo') end as sent_to from found limit 1
