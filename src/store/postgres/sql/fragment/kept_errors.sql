-- The errors of a job with a place for one more: the newest, if there are as many as a job keeps. Anything else than a list is dropped, and
-- so is a list of a size that no build writes: it must not keep other jobs of the same statement from going on.
case when jsonb_typeof({row}.errors) = 'array' and pg_column_size({row}.errors) <= 65536
     then case when jsonb_array_length({row}.errors) < {errors_kept} then {row}.errors
               else jsonb_path_query_array({row}.errors, 'lax $[last - {errors_kept} + 2 to last]') end
     else '[]' end
