//! The Rust in the documents is compiled and run by `tests/snippets.rs`, and `cargo xtask documents` writes what that includes. Cargo wants a
//! library or a program in each package; this one is empty.
