//! Which file imports what from which: by `use`, and by paths in code.

use std::collections::BTreeSet;

use super::names::Target;
use super::paths::{Path, paths};
use super::tree::{Crate, Module};
use super::use_tree::Use;

/// An import of one file from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    pub(super) line: usize,
    /// As it is written.
    pub(super) path: String,
}

/// All imports, or the paths that lead nowhere. `outside` are the names of other crates.
pub(super) fn imports<'a>(krate: &Crate<'a>, outside: &BTreeSet<String>) -> Result<Vec<Import<'a>>, Vec<String>> {
    let mut found = Found { krate, outside, imports: BTreeSet::new(), problems: Vec::new() };
    for (at, module) in krate.modules.iter().enumerate().filter(|(_, module)| !module.is_test) {
        let paths = paths(&module.code);
        let used = paths.iter().filter(|path| path.is_use).map(|path| path.segments[0]).collect();
        for one in &module.uses {
            found.declared(at, one, &used);
        }
        for path in &paths {
            found.written(at, path);
        }
    }
    if found.problems.is_empty() { Ok(found.imports.into_iter().collect()) } else { Err(found.problems) }
}

struct Found<'k, 'a> {
    krate: &'k Crate<'a>,
    outside: &'k BTreeSet<String>,
    imports: BTreeSet<Import<'a>>,
    problems: Vec<String>,
}

impl<'a> Found<'_, 'a> {
    /// A `pub use` is a facade: it is followed, and counts only if the file itself uses the name. A private `use` counts always.
    fn declared(&mut self, at: usize, one: &Use<'a>, used: &BTreeSet<&'a str>) {
        let module = &self.krate.modules[at];
        let targets = self.krate.resolve(at, &one.path);
        let first = one.path.first().copied().unwrap_or("::");
        let is_other = targets == [Target::Outside] && !one.is_nested && self.krate.look_up(at, first).is_empty();
        let is_known = ["::", "crate", "self", "super"].contains(&first) || self.outside.contains(first);
        if targets.is_empty() || is_other && !is_known {
            self.leads_nowhere(module, one.line, &one.path);
        }
        // What the file uses through a glob is found by its name.
        if !one.is_public || one.name.is_some_and(|name| used.contains(name)) {
            self.add(module, &targets, one.line, &one.path);
        }
    }

    fn written(&mut self, at: usize, path: &Path<'a>) {
        let module = &self.krate.modules[at];
        let first = path.segments[0];
        let is_relative = ["crate", "self", "super"].contains(&first);
        if is_relative && path.segments.len() == 1 || !path.is_use {
            return;
        }
        let named = if is_relative { Vec::new() } else { self.krate.look_up(at, first) };
        if path.is_macro_call && path.segments.len() == 1 && named.is_empty() {
            // It came without a `use`, since it is defined before the module is declared.
            for other in self.krate.macros(first).collect::<Vec<_>>() {
                self.insert(module, other.file, path.line, first.to_owned());
            }
        }
        if path.segments.len() == 1 {
            // A `use` of this name is counted where it stands, and a module by itself is no value: then it is a variable of that name.
            let is_declared = module.uses.iter().any(|one| one.name == Some(first));
            if !is_declared {
                let items: Vec<_> = named.into_iter().filter(|target| matches!(target, Target::Item(..))).collect();
                self.add(module, &items, path.line, &path.segments);
            }
            return;
        }
        if is_relative || !named.is_empty() {
            let targets = self.krate.resolve(at, &path.segments);
            if targets.is_empty() {
                self.leads_nowhere(module, path.line, &path.segments);
            }
            self.add(module, &targets, path.line, &path.segments);
        }
    }

    fn leads_nowhere(&mut self, module: &Module<'a>, line: usize, path: &[&str]) {
        self.problems.push(format!(
            "src/{}:{line}: {} leads nowhere that this check can see. If a macro defines it, call the macro among the \
             items of that module; else teach the check (xtask/src/rooms/names.rs)",
            module.file,
            path.join("::"),
        ));
    }

    fn add(&mut self, module: &Module<'a>, targets: &[Target<'_>], line: usize, path: &[&str]) {
        for target in targets {
            if let Target::Module(to) | Target::Item(to, _) = target {
                self.insert(module, self.krate.modules[*to].file, line, path.join("::"));
            }
        }
    }

    fn insert(&mut self, module: &Module<'a>, to: &'a str, line: usize, path: String) {
        if module.file != to {
            self.imports.insert(Import { from: module.file, to, line, path });
        }
    }
}
