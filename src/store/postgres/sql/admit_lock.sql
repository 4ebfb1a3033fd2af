-- Admission passes exclude each other. This is a separate statement, because only later ones see what it waited for.
select from {schema}.admission for update
