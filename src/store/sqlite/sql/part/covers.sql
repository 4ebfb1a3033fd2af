-- Whether the rule `r` holds for a row in its scope: by name, or as the rule of all that have none of their own. A pause of all is one of all.
-- (What such a rule limits beside its pause makes no difference to those that have their own: nothing of them starts.)
(
    r.name = {subject}
    or r.name = '*' and {subject} is not null
       and (r.paused or not exists (select 1 from jobwright_rule own where own.scope = r.scope and own.name = {subject}))
)
