-- Jobs that the schedules have sent stay.
-- :names::text[]
delete from {schema}.schedule where name = any (:names) returning name
