-- See the function. It is one because each of its steps must see what was committed meanwhile.
select n, verdict, holder from {schema}.take_unique($1, $2, $3, $4, $5)
