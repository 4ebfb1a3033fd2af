-- Copies the jobs; remove_job follows in the same transaction. The returned rows have no order: the caller sorts them.
insert into jobwright_external_job (seq, version, lease_until, lease, handed_at, created_at, id, attempt, max_attempts, rank,
                                    kind, queue, payload, body, content_type, headers, errors, options, admitted)
select seq, :token, :now + :lease, :lease, :now, created_at, id, attempt + 1, max_attempts, rank, kind, queue, payload,
       body, content_type, headers, errors, options, admitted
from jobwright_job as job
where lock_owner is null and queue = :queue and {queue_open} and {may_start}
order by rank, seq limit :limit
returning {job_columns}
