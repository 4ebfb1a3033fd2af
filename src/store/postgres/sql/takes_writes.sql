-- Changes no row, but requests the locks of statements that do. While a conflicting lock is held (an index is built, a table rewritten), it
-- waits like the statements that store messages from the broker, and fails like them.
with submission as (delete from {schema}.submission where false),
     job as (delete from {schema}.job where false),
     timer as (delete from {schema}.timer_job where false),
     unblock as (delete from {schema}.unblock where false),
     external as (delete from {schema}.external_job where false)
select
