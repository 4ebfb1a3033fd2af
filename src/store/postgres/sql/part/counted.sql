-- Whether claims count by themselves what the rule `r` limits: shares are weighed by rounds, and under the rule of all kinds each kind of a program
-- would be a claim of its own.
(r.shares is null and (r.scope = 'queue' or r.scope = 'kind' and r.name <> '*'))
