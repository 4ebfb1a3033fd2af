-- Assignments that make a row fit the constraints of its table, but for its content and options.
kind = case when octet_length({row}.kind) <= 100 then {row}.kind else left({row}.kind, 25) end,
attempt = least(greatest({row}.attempt, 0), 2000000000),
rank = greatest({row}.rank, (-32767)::int2),
created_at = case when isfinite({row}.created_at) then {row}.created_at else clock_timestamp() end
