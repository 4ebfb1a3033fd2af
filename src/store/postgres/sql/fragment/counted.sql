-- Whether claims count what the rule `r` limits: they can count this rule, and all other limits too (`allowance` in the schema).
({schema}.is_simple(r.scope, r.name, r.shares)
 and (select not exists (select from {schema}.rule o
                         where (o.running is not null or o.rate is not null) and not {schema}.is_simple(o.scope, o.name, o.shares))))
