-- What a rule of a scope is about, in a job.
case r.scope when 'queue' then job.queue when 'kind' then job.kind when 'tenant' then job.terms ->> 'tenant'
             when 'key' then job.terms ->> 'limit' else job.terms ->> 'group' end
