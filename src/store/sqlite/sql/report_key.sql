-- What the tokens of hand-outs are made with.
select key from jobwright_report_key
