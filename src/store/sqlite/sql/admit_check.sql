-- Runs on a reader: whether an admission pass has work, and when it will have some.
select exists (select 1 from jobwright_unblock where unblock_at <= :now),
       exists (select 1 from jobwright_rule where paused or running is not null or rate is not null),
       (select min(unblock_at) from jobwright_unblock where unblock_at > :now),
       (select min(aging) from jobwright_rule)
