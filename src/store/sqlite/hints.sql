-- name: data_version
-- Changes when another connection has committed a change; costs no read of the file.
pragma data_version
