-- Whether this node owns a row without knowing it. Claims are compared, and not jobs: the old handler of an id that was cancelled and sent again
-- does not account for the row of a later claim. `is not true` keeps the planner from turning that into a join: the known claims are hashed once.
-- Claims that began after the known claims were listed are left alone: their numbers come after :before (numbers wrap around, so the
-- nearer half of the circle is "after"). So claims need not stop for the walk.
lock_owner = :node
  and ((id, version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is not true
  and (:before::int4 is null or (version::int8 - :before + 2147483648) % 2147483648 >= 1073741824)
