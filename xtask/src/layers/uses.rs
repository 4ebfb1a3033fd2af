//! The uses of one file of a crate by another. `syn` parses the files, and each name is followed through `use` declarations to the file that defines
//! it. A `pub use` only passes a name on, and is kept apart: it makes no circle. Tests are exempt. Methods and calls through `dyn`, which name no file, stay unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, slice};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, ItemUse, UseTree, Visibility};

use crate::run::Result;

/// Pairs of files of which the first uses the second, and a path by which it does.
pub(super) type Uses = BTreeMap<(String, String), String>;

/// The files of a crate, their uses, and what they pass on.
pub(super) struct Found {
    pub(super) files: BTreeSet<String>,
    pub(super) uses: Uses,
    pub(super) passed: Uses,
}

/// The modules of a crate by their paths; that of the root is empty.
type Modules = BTreeMap<Vec<String>, Module>;

#[derive(Default)]
struct Module {
    file: String,
    /// The names that `use` declarations bring into the module, and their paths.
    imports: Vec<(String, Vec<String>)>,
    /// The paths in its code, and those of its private `use` declarations.
    paths: Vec<Vec<String>>,
    /// Those of its other `use` declarations.
    passed: Vec<Vec<String>>,
}

/// Reads the crate whose root is the `lib.rs` of this folder.
pub(super) fn found(src: &Path) -> Result<Found> {
    let mut modules = Modules::new();
    read(src, &[], "lib.rs", "", &mut modules)?;
    let files = modules.values().map(|module| module.file.clone()).collect();
    Ok(Found { files, uses: uses(&modules, |module| &module.paths), passed: uses(&modules, |module| &module.passed) })
}

fn uses(modules: &Modules, paths: impl Fn(&Module) -> &[Vec<String>]) -> Uses {
    let mut uses = Uses::new();
    for (own, module) in modules {
        for path in paths(module) {
            // A single word names what a `use` has brought, an item of this module, or a variable.
            if path.len() > 1 || module.imports.iter().any(|(name, _)| *name == path[0]) {
                let others = resolve(modules, own, path).into_iter().filter(|other| other.file != module.file);
                uses.extend(others.map(|other| ((module.file.clone(), other.file.clone()), path.join("::"))));
            }
        }
    }
    uses
}

/// Reads the module `own` from a file. The files of its children are in the folder `below`, which ends with a slash unless it is the root.
fn read(src: &Path, own: &[String], file: &str, below: &str, modules: &mut Modules) -> Result<()> {
    let text = fs::read_to_string(src.join(file)).map_err(|why| format!("cannot read {file}: {why}"))?;
    let parsed = syn::parse_file(&text).map_err(|why| format!("cannot parse {file}: {why}"))?;
    add(src, own, (file, below), &parsed.items, modules)
}

fn add(src: &Path, own: &[String], (file, below): (&str, &str), items: &[Item], modules: &mut Modules) -> Result<()> {
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    for item in items {
        let Item::Mod(child) = item else {
            module.visit_item(item);
            continue;
        };
        let path = [own, &[child.ident.to_string()]].concat();
        let below = format!("{below}{}/", child.ident);
        let conditions = child.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
        let mut conditions = conditions.filter_map(|cfg| Some(cfg.meta.require_list().ok()?.tokens.to_string()));
        let is_for_tests = conditions.any(|cfg| cfg == "test" || cfg.starts_with("all (test"));
        match &child.content {
            _ if is_for_tests => {}
            Some((_, items)) => add(src, &path, (file, &below), items, modules)?,
            None => {
                let (file, below) = match named(child) {
                    // From the folder of this file. One file may be several modules.
                    Some(named) => beside(file, &named),
                    None if src.join(format!("{below}mod.rs")).exists() => (format!("{below}mod.rs"), below),
                    None => (format!("{}.rs", below.trim_end_matches('/')), below),
                };
                read(src, &path, &file, &below, modules)?;
            }
        }
    }
    modules.insert(own.to_vec(), module);
    Ok(())
}

/// Returns the file that an attribute (`#[path = "..."]`) names for a module.
fn named(module: &syn::ItemMod) -> Option<String> {
    let attribute = module.attrs.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(file), .. }) =
        &attribute.meta.require_name_value().ok()?.value
    else {
        return None;
    };
    Some(file.value())
}

/// Returns a file that is named from the folder of another one, and the folder of its children: those of a named file are beside it.
fn beside(file: &str, named: &str) -> (String, String) {
    let folder = |file: &str| file.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
    let file = format!("{}{named}", folder(file));
    let below = folder(&file);
    (file, below)
}

/// The modules that define what a path names, seen from a module. What none of them defines is the module's own, or another crate's.
fn resolve<'a>(modules: &'a Modules, from: &[String], path: &[String]) -> Vec<&'a Module> {
    let Some((first, rest)) = path.split_first() else { return modules.get(from).into_iter().collect() };
    let child = [from, slice::from_ref(first)].concat();
    match first.as_str() {
        "crate" => resolve(modules, &[], rest),
        "self" => resolve(modules, from, rest),
        "super" => resolve(modules, &from[..from.len().saturating_sub(1)], rest),
        _ if !rest.is_empty() && modules.contains_key(&child) => resolve(modules, &child, rest),
        name => {
            let imports = modules.get(from).into_iter().flat_map(|module| &module.imports);
            // A path that begins with the name that it brings leads to another crate.
            let imports = imports.filter(|(import, path)| import == name && path[0] != name);
            let paths = imports.map(|(_, path)| [path.as_slice(), rest].concat());
            let found: Vec<&Module> = paths.flat_map(|path| resolve(modules, from, &path)).collect();
            if found.is_empty() { modules.get(&child).or(modules.get(from)).into_iter().collect() } else { found }
        }
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, path: &[String], is_public: bool) {
        let (name, last) = match tree {
            UseTree::Path(tree) => {
                return self.import(&tree.tree, &[path, &[tree.ident.to_string()]].concat(), is_public);
            }
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.import(tree, path, is_public)),
            UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
            UseTree::Rename(tree) => (tree.rename.to_string(), tree.ident.to_string()),
            UseTree::Glob(_) => ("*".to_owned(), "*".to_owned()),
        };
        let path = if last == "self" { path.to_vec() } else { [path, &[last]].concat() };
        let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name };
        // What comes through a glob counts as a use of the file with the glob, which uses all that is behind it.
        let paths = if is_public && name != "*" { &mut self.passed } else { &mut self.paths };
        paths.push(path.clone());
        self.imports.push((name, path));
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.import(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    /// The tokens of a macro, which `syn` does not parse: words with `::` between them are a path.
    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        let mut words = Vec::new();
        for token in tokens.clone() {
            match token {
                TokenTree::Group(group) => self.visit_token_stream(&group.stream()),
                TokenTree::Literal(_) => {}
                other => words.push(other.to_string()),
            }
        }
        let paths = words.join(" ").replace(" : : ", "::");
        self.paths.extend(paths.split(' ').map(|path| path.split("::").map(str::to_owned).collect()));
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
