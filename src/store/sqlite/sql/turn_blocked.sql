-- From now on it waits behind another gate.
update jobwright_blocked_job set gate = :gate, share = :share, admitted = max(admitted, :hold) where id = :id
