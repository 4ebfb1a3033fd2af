-- Newest first.
select id, at, who, action, what, counts
from jobwright_audit
where (:before is null or id < :before)
  and (:who is null or who = :who)
  and (:action is null or action = :action)
order by id desc
limit :limit
