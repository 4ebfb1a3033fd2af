-- Copies the jobs; remove follows in the same transaction. A job of a group waits for admission: a trigger ensures that.
insert into jobwright_job ({carried}, version, attempt, errors, options)
select {carried}, version, attempt, errors, options
from {table} where {filter}
