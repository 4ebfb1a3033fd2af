-- Shown in the status; nothing depends on it.
update {schema}.node set broker = $2 where id = $1
