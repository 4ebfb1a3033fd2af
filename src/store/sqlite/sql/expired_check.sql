-- Asked on a reader, so that an idle system writes nothing but heartbeats.
select exists (select 1 from jobwright_node where dead_at is null and expires_at <= :now)
