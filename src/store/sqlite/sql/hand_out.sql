-- Copies the jobs; remove_job follows in the same transaction. The returned rows have no order: the caller sorts them.
insert into jobwright_external_job ({carried}, version, attempt, errors, options, admitted, lease_until, lease, handed_at)
select {carried}, :token, attempt + 1, errors, options, admitted, :now + :lease, :lease, :now
from jobwright_job as job
where lock_owner is null and queue = :queue and {queue_open} and {may_start}
order by rank, seq limit :limit
returning {job}
