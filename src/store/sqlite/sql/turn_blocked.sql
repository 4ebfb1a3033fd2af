-- From now on the job is blocked on another key.
update jobwright_blocked_job set blocked_on = :blocked_on, share = :share, admitted = max(admitted, :hold) where id = :id
