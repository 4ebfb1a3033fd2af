-- Whether claims count by themselves what the rule `r` limits: it is one that they can count, and so are all others that limit (migration `usage`).
({schema}.is_simple(r.scope, r.name, r.shares)
 and (select not exists (select from {schema}.rule o
                         where (o.running is not null or o.rate is not null) and not {schema}.is_simple(o.scope, o.name, o.shares))))
