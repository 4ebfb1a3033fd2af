-- Jobs that the schedules have sent stay.
delete from {schema}.schedule where name = any ($1) returning name
