-- The same where it is known which jobs a claim may have taken whose answer got lost.
delete from {schema}.ending where job_id = any ($3::uuid[]) and node = $1 and version = $2
returning holder
