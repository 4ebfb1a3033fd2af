-- Changes no row, but asks for the locks of those who do: while somebody holds one against them (an index is built, a table rewritten), it waits
-- like the statements that store what came from the broker, and fails like them.
with submission as (delete from {schema}.submission where false),
     job as (delete from {schema}.job where false),
     timer as (delete from {schema}.timer_job where false),
     opening as (delete from {schema}.opening where false),
     external as (delete from {schema}.external_job where false)
select
