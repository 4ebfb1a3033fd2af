-- Most installations have no depth limits, and pay for no more than this.
select exists (select 1 from jobwright_rule where depth is not null)
