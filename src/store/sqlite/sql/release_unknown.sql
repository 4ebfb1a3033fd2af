-- Releases what a node owns without knowing it. No handler ran, so it costs no attempt. Uses the index of owned rows.
-- Compares claims, and not jobs: the old handler of an id that was cancelled and sent again does not account for the row of a later claim.
-- Claims that began after :before are left alone (numbers wrap around: the nearer half of the circle is "after").
update jobwright_job indexed by jobwright_job_owned
set lock_owner = null, claimed_at = null, attempt = max(attempt - 1, 0)
where lock_owner = :node and (id, version) not in ({known})
  and (:before is null or (version - :before + 2147483648) % 2147483648 >= 1073741824)
