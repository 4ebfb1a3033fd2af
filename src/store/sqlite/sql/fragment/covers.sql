-- Whether the rule `r` applies to a row in its scope: by name, or as the rule for all that have none of their own. A pause of all applies
-- to all.
-- (Whatever else such a rule limits makes no difference to rows with their own rule: none of them starts.)
(
    r.name = {subject}
    or r.name = '*' and {subject} is not null
       and (r.paused or not exists (select 1 from jobwright_rule own where own.scope = r.scope and own.name = {subject}))
)
