-- Moves on schedules that this transaction has locked.
-- :names::text[], :seen::int8[], :next_times::timestamptz[], :last_times::timestamptz[], :last_jobs::uuid[], :sent_counts::int8[]
update {schema}.schedule s
set version = s.version + 1, next_at = f.next_at, last_at = coalesce(f.last_at, s.last_at),
    last_job = coalesce(f.last_job, s.last_job), fired = s.fired + f.sent
from unnest(:names::text[], :seen::int8[], :next_times::timestamptz[], :last_times::timestamptz[], :last_jobs::uuid[], :sent_counts::int8[])
         as f(name, version, next_at, last_at, last_job, sent)
where s.name = f.name and s.version = f.version
returning s.name
