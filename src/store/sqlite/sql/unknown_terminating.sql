-- Like handler_ended.sql, for handlers that a node can't know of, because the answer to the claim got lost, or that are no longer in
-- flight. As for owned rows (release_unknown.sql), claims are compared, and those that began after :before are left alone.
delete from jobwright_terminating_handler
where node = :node and (job_id, version) not in ({known})
  and (:before is null or (version - :before + 2147483648) % 2147483648 >= 1073741824)
