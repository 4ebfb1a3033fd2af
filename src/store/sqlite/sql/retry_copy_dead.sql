-- If a job of the same id exists already, the dead letter stays where it is. A time to live starts again.
insert into jobwright_job ({carried}, version, attempt, errors, options)
select {carried}, version, 0, errors,
       case when options ->> 'ttl' is not null
            then json_set(options, '$.expires', cast(unixepoch('subsec') * 1000000 as integer) + (options ->> 'ttl')) else options end
from jobwright_dead_letter_job where {filter}
on conflict (id) do nothing
