-- Jobs that it has sent stay.
delete from jobwright_schedule where name = :name
