-- A key is held for no longer than whoever asks for it would hold it: one that a clock took which was ahead would be held for as long as that
-- was.
update jobwright_unique_key set expires_at = :until where key = unhex(:key) and expires_at > :until
