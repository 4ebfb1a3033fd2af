-- The same for those that a node can't know of, because the answer to the claim got lost on the way, or that are in hand no more. As for the
-- rows it owns (release_unknown.sql), claims are compared, and what claims took that began after $4 is left alone.
delete from {schema}.ending
where node = $1
  and ((job_id, version) in (select * from unnest($2::uuid[], $3::int8[]))) is not true
  and ($4::int4 is null or (version - $4 + 2147483648) % 2147483648 >= 1073741824)
returning holder
