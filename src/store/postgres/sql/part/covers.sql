-- Whether the rule `r` is the one that holds for a row in its scope: by name, or as the rule of all that have none of their own.
(
    {schema}.subject(r.scope, {row}.queue, {row}.kind, {row}.terms) = r.name
    or r.name = '*' and {schema}.subject(r.scope, {row}.queue, {row}.kind, {row}.terms) is not null
       and not exists (select from {schema}.rule own
                       where own.scope = r.scope and own.name = {schema}.subject(r.scope, {row}.queue, {row}.kind, {row}.terms))
)
