-- Copies the jobs; remove follows in the same transaction.
insert into jobwright_suspended_job ({carried}, version, attempt, errors, options, due_at, suspended_at)
select {carried}, version, attempt, errors, options, {due_at}, :now
from {table} where {filter}
