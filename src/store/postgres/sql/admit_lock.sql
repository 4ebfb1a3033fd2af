-- Rounds take turns. A statement of its own: only later ones see what this has waited for.
select from {schema}.admission for update
