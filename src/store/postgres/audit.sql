-- name: audit_write
-- Runs in the transaction of the action.
-- :who::text, :action::text, :what::jsonb, :counts::jsonb
insert into {schema}.audit (who, action, what, counts) values (:who, :action, :what, :counts) returning id

-- name: audit_count
-- An action may take several transactions; each updates the counts.
-- :id::int8, :counts::jsonb
update {schema}.audit set counts = :counts where id = :id
