-- name: audit
-- Newest first.
select id, at, who, action, what, counts
from jobwright_audit
where (:before is null or id < :before)
  and (:who is null or who = :who)
  and (:action is null or action = :action)
order by id desc
limit :limit

-- name: audit_write
-- Runs in the transaction of the action.
insert into jobwright_audit (at, who, action, what) values (:at, :who, :action, :what)

-- name: audit_count
-- An action may take several transactions; each updates the counts.
update jobwright_audit set counts = :counts where id = :id
