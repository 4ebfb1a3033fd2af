-- The terms of a dead letter that starts again: it lives as long again.
case when terms ->> 'ttl' is not null then json_set(terms, '$.expires', :now + (terms ->> 'ttl')) else terms end
