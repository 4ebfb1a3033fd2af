-- An action may take several transactions; each updates the counts.
-- :id::int8, :counts::jsonb
update {schema}.audit set counts = :counts where id = :id
