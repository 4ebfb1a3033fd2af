-- What the tokens of hand-outs are made with.
select key from {schema}.report_key
