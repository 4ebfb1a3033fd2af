-- Runs in the transaction of the action.
insert into {schema}.audit (who, action, what, counts) values ($1, $2, $3, $4) returning id
