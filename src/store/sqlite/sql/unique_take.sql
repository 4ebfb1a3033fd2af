-- For a key that is no longer held, or whose job was just removed.
insert into jobwright_unique_key (key, job_id, hold, taken_at, expires_at) values (unhex(:key), :id, :hold, :taken_at, :expires_at)
on conflict (key) do update set
    job_id = excluded.job_id, hold = excluded.hold, taken_at = excluded.taken_at, expires_at = excluded.expires_at
