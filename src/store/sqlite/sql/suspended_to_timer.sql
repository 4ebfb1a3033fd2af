-- Jobs whose due date is ahead. Copies them; remove follows in the same transaction.
insert into jobwright_timer_job ({carried}, version, attempt, errors, options, due_at)
select {carried}, version, attempt, errors, options, due_at
from {table} where due_at > :now and {filter}
