//! Broken twins, each in a line: the rules that it lacks, the promise that must then be broken, and what is particular about it.

/// The rules as built, without these.
macro_rules! without {
    ($($rule:ident),+) => {
        $crate::vocabulary::Rules { $($rule: false,)+ ..$crate::vocabulary::Rules::BUILT }
    };
}

/// Calls a function or closure for each twin, with its rules, its promise, its words, and the bounds that follow them.
macro_rules! twins {
    ($twin:ident: $(without $($rule:ident),+ => $promise:ident: $says:literal $(, $bound:expr)*;)*) => {
        $($twin(without!($($rule),+), $crate::vocabulary::Promise::$promise, $says $(, $bound)*);)*
    };
}
