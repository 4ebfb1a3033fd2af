-- Asked on a reader: whether there is anything to look at, and when there will be.
select exists (select 1 from jobwright_opening where opens_at <= :now),
       exists (select 1 from jobwright_rule where paused or running is not null or rate is not null),
       (select min(opens_at) from jobwright_opening where opens_at > :now),
       (select min(aging) from jobwright_rule)
