-- Runs in the transaction of the action.
-- :who::text, :action::text, :what::jsonb, :counts::jsonb
insert into {schema}.audit (who, action, what, counts) values (:who, :action, :what, :counts) returning id
