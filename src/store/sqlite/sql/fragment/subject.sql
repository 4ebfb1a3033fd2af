-- The name under which a rule of a scope covers a job.
case r.scope when 'queue' then job.queue when 'kind' then job.kind when 'tenant' then job.options ->> 'tenant'
             when 'key' then job.options ->> 'limit' else job.options ->> 'group' end
