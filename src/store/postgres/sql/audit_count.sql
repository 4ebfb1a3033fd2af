-- An action may take several transactions; each updates the counts.
update {schema}.audit set counts = $2 where id = $1
