-- One action may take several transactions; each adds what it did.
update {schema}.audit set counts = $2 where id = $1
