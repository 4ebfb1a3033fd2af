-- Jobs that they have sent stay.
delete from {schema}.schedule where name = any ($1) returning name
