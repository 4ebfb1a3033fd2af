-- Newest first.
-- :before::int8, :who::text, :action::text, :limit::int8
select id, at, who, action, what, counts
from {schema}.audit
where (:before::int8 is null or id < :before)
  and (:who::text is null or who = :who)
  and (:action::text is null or action = :action)
order by id desc
limit :limit
