-- Whether the rule `r` is the one that holds for a row in its scope: by name, or as the rule of all that have none of their own.
(
    r.name = {subject}
    or r.name = '*' and {subject} is not null
       and not exists (select 1 from jobwright_rule own where own.scope = r.scope and own.name = {subject})
)
