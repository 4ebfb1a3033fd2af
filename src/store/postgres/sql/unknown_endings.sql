-- The same for those that a node can't know of, because the answer to the claim got lost on the way, or that are in hand no more. As for the
-- rows it owns (release_unknown.sql), what claims took that began after $3 is left alone.
delete from {schema}.ending
where node = $1
  and job_id <> all ($2::uuid[])
  and ($3::int4 is null or (version - $3 + 2147483648) % 2147483648 >= 1073741824)
returning holder
