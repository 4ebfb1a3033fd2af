-- Gives back what a node owns without knowing it; no handler ran, so it costs no attempt. In the index of owned rows.
-- Claims are compared, and not jobs: an old handler of an id that was cancelled and sent again does not stand for the row of a later claim.
-- What claims took that began after :before stays (numbers go round: the nearer half of the circle is "after").
update jobwright_job indexed by jobwright_job_owned
set lock_owner = null, claimed_at = null, attempt = max(attempt - 1, 0)
where lock_owner = :node and (id, version) not in ({known})
  and (:before is null or (version - :before + 2147483648) % 2147483648 >= 1073741824)
