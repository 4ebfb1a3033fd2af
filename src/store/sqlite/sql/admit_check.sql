-- Runs on a reader: whether an admission pass has work, and when it will have some.
select exists (select 1 from jobwright_unblock where unblock_at <= :now) as unblocks,
       exists (select 1 from jobwright_rule where paused or running is not null or rate is not null) as limited,
       (select min(unblock_at) from jobwright_unblock where unblock_at > :now) as next_at,
       (select min(aging) from jobwright_rule) as aging
