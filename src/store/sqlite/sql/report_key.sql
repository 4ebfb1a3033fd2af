-- The key from which the tokens of hand-outs are made.
select key from jobwright_report_key
