-- The fences as one blob of ids, 16 bytes each, and a JSON array of versions in the same order. CROSS JOIN fixes the order of the loops:
-- each id is looked up, whatever the planner believes about owned rows.
seq in (
    select job.seq
    from json_each(:versions) as fence
    cross join jobwright_job as job on job.id = substr(:ids, fence.key * 16 + 1, 16)
    where job.version = fence.value and job.lock_owner = :node
)
