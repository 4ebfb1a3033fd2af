-- Whether the schedule is unchanged since it was read. The occurrence is compared too: a schedule that was deleted and put again begins
-- with the same versions.
select exists (select 1 from jobwright_schedule where name = :name and version = :seen and next_at = :due)
