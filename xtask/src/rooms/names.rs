//! What a name or a path means, in a module.

use super::tree::{Crate, Module};
use super::use_tree::Use;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target<'a> {
    Module(usize),
    /// An item of this module.
    Item(usize, &'a str),
    /// Something of another crate, or of the language.
    Outside,
}

/// The names that are being looked up, and where: a `use` may lead to itself.
type Seen<'p> = Vec<(usize, &'p str)>;

impl<'a> Crate<'a> {
    /// Follows a path from a module to what it names, through every `use`. Two results are a module and a function of one name, or two `use`
    /// declarations under different conditions. No result: it leads nowhere.
    pub(super) fn resolve<'p>(&'p self, from: usize, path: &[&'p str]) -> Vec<Target<'p>> {
        self.follow(from, path, &mut Vec::new())
    }

    /// What a name means in a module. No result: nothing of this crate.
    pub(super) fn look_up<'p>(&'p self, module: usize, name: &'p str) -> Vec<Target<'p>> {
        self.find(module, name, &mut Vec::new())
    }

    fn follow<'p>(&'p self, from: usize, path: &[&'p str], seen: &mut Seen<'p>) -> Vec<Target<'p>> {
        match path {
            ["crate", rest @ ..] => self.walk(0, rest, seen),
            ["self", rest @ ..] => self.walk(from, rest, seen),
            ["super", rest @ ..] => match self.modules[from].parent {
                Some(parent) => self.walk(parent, rest, seen),
                None => Vec::new(),
            },
            ["::", ..] | [] => vec![Target::Outside],
            [first, rest @ ..] => match self.find(from, first, seen) {
                targets if targets.is_empty() => vec![Target::Outside],
                targets => self.descend(targets, rest, seen),
            },
        }
    }

    fn walk<'p>(&'p self, module: usize, path: &[&'p str], seen: &mut Seen<'p>) -> Vec<Target<'p>> {
        match path {
            [] => vec![Target::Module(module)],
            ["super", ..] => self.follow(module, path, seen),
            [first, rest @ ..] => {
                let targets = self.find(module, first, seen);
                self.descend(targets, rest, seen)
            }
        }
    }

    /// Only modules have something below them that can be elsewhere. Below a type are its variants and functions; below a function is nothing.
    fn descend<'p>(&'p self, targets: Vec<Target<'p>>, path: &[&'p str], seen: &mut Seen<'p>) -> Vec<Target<'p>> {
        if path.is_empty() {
            return targets;
        }
        let mut found = Vec::new();
        let mut others = Vec::new();
        for target in targets {
            match target {
                Target::Module(module) => found.extend(self.walk(module, path, seen)),
                Target::Item(module, name) if !self.may_be_type(module, name) => {}
                other => others.push(other),
            }
        }
        if found.is_empty() { others } else { found }
    }

    /// What a macro defines may be one.
    fn may_be_type(&self, module: usize, name: &str) -> bool {
        self.modules[module].definitions.get(name).is_none_or(|definition| definition.is_type)
    }

    fn find<'p>(&'p self, module: usize, name: &'p str, seen: &mut Seen<'p>) -> Vec<Target<'p>> {
        let here = &self.modules[module];
        let children = here.children.iter().filter(|(child, _)| *child == name);
        let mut found: Vec<Target<'p>> = children.map(|(_, child)| Target::Module(*child)).collect();
        found.extend(here.definitions.contains_key(name).then_some(Target::Item(module, name)));
        if seen.contains(&(module, name)) {
            return found;
        }
        seen.push((module, name));
        for one in here.uses.iter().filter(|one| one.name == Some(name)) {
            found.extend(self.follow(module, &one.path, seen));
        }
        // A glob gives no name that there is already; but a function may be called like a module.
        if found.iter().all(|target| matches!(target, Target::Module(_))) {
            let is_alone = found.is_empty();
            for one in here.uses.iter().filter(|one| one.is_glob) {
                let targets = self.through_glob(module, one, name, seen);
                found.extend(targets.into_iter().filter(|target| is_alone || matches!(target, Target::Item(..))));
            }
        }
        seen.pop();
        if found.is_empty() && here.macro_words.contains(name) {
            found.push(Target::Item(module, name));
        }
        found
    }

    fn through_glob<'p>(
        &'p self,
        module: usize,
        glob: &'p Use<'a>,
        name: &'p str,
        seen: &mut Seen<'p>,
    ) -> Vec<Target<'p>> {
        let targets = self.follow(module, &glob.path, seen);
        let behind = |target| match target {
            Target::Module(other) if other != module => self.find(other, name, seen),
            Target::Item(other, item) => {
                let definition = self.modules[other].definitions.get(item);
                let is_variant = definition.is_some_and(|definition| definition.variants.contains(&name));
                if is_variant { vec![target] } else { Vec::new() }
            }
            Target::Module(_) => Vec::new(),
            Target::Outside => vec![Target::Outside],
        };
        targets.into_iter().flat_map(behind).collect()
    }

    /// The modules of the library that define a macro of this name.
    pub(super) fn macros<'p>(&'p self, name: &str) -> impl Iterator<Item = &'p Module<'a>> {
        let name = name.to_owned();
        let defines = move |module: &&Module<'a>| module.definitions.get(name.as_str()).is_some_and(|one| one.is_macro);
        self.modules.iter().filter(|module| !module.is_test).filter(defines)
    }
}
