-- Whether the rule `r` applies to a row in its scope: by name, or as the rule for all that have none of their own. A pause of all applies
-- to all.
-- (Whatever else such a rule limits makes no difference to rows with their own rule: none of them starts.)
(
    {schema}.subject(r.scope, {row}.queue, {row}.kind, {row}.options) = r.name
    or r.name = '*' and {schema}.subject(r.scope, {row}.queue, {row}.kind, {row}.options) is not null
       and (r.paused or not exists (select from {schema}.rule own
                       where own.scope = r.scope and own.name = {schema}.subject(r.scope, {row}.queue, {row}.kind, {row}.options)))
)
