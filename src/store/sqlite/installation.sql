-- name: new_report_key
-- A new key for the tokens of hand-outs, of the library's strong random source. It also makes the file an installation of its own.
update jobwright_report_key set key = randomblob(32)
