-- The same for those that a node can't know of, because the answer to the claim got lost on the way, or that are in hand no more. As for the
-- rows it owns (release_unknown.sql), claims are compared, and what claims took that began after :before is left alone.
delete from jobwright_ending
where node = :node and (job_id, version) not in ({known})
  and (:before is null or (version - :before + 2147483648) % 2147483648 >= 1073741824)
