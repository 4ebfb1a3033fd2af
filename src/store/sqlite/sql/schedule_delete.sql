-- Jobs that the schedule has sent stay.
delete from jobwright_schedule where name = :name
