//! Variables that a worker withholds from the programs it starts, and those that tell them so.

/// Variables with passwords that a worker withholds from the programs it starts, unless their handler sets `pass_urls`.
pub(crate) const URL_VARIABLES: [&str; 4] =
    ["DATABASE_URL", "AMQP_URL", "JOBWRIGHT_DATABASE_URL", "JOBWRIGHT_BROKER_URL"];

/// Whether a variable holds a key. No program gets to see it, whatever its handler's settings. The path of a key file is not withheld.
pub(crate) fn is_key(variable: &str) -> bool {
    variable.starts_with("JOBWRIGHT_SEAL_KEYS_") && !variable.ends_with("_FILE")
}

/// Whether a variable holds the URL of a handler, which is for the worker alone and may contain a token. No program gets to see it.
pub(crate) fn is_hook(variable: &str) -> bool {
    variable.starts_with("JOBWRIGHT_HANDLERS_") && variable.ends_with("_URL")
}

/// Says that URLs were withheld from a program: `jobwright` itself must not take that for "no database is configured".
pub(crate) const WITHHELD: &str = "JOBWRIGHT_URLS_WITHHELD";

/// The same for keys: `jobwright` must not store in plain what the worker seals.
pub(crate) const KEYS_WITHHELD: &str = "JOBWRIGHT_KEYS_WITHHELD";

/// The same for URLs of handlers: `jobwright` runs no handlers here, and must accept a handler whose URL is missing.
pub(crate) const HOOKS_WITHHELD: &str = "JOBWRIGHT_HOOKS_WITHHELD";
