-- Repairs the rows that skewed_leases.sql finds.
update jobwright_external_job
set lease_until = min(lease_until - max(handed_at - :now, 0), :now + max(lease, :longest)), handed_at = min(handed_at, :now)
where handed_at > :now + 1000000 or lease_until > :now + 1000000 + max(lease, :longest)
