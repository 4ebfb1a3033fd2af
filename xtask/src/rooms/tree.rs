//! The modules of a crate, from its files.

use std::collections::{BTreeMap, BTreeSet};

use super::Problem;
use super::items::{Item, What, items, variants};
use super::test_code::without_tests;
use super::tokens::{Kind, Token, tokens};
use super::use_tree::{self, Use, take_uses};

/// The text of each file, by its path from `src/`.
pub(super) type Files = BTreeMap<String, String>;

#[derive(Debug)]
pub(super) struct Module<'a> {
    pub(super) file: &'a str,
    pub(super) parent: Option<usize>,
    pub(super) is_test: bool,
    pub(super) children: Vec<(&'a str, usize)>,
    pub(super) definitions: BTreeMap<&'a str, Definition<'a>>,
    pub(super) uses: Vec<Use<'a>>,
    /// Its items without tests, `use` declarations and modules.
    pub(super) code: Vec<Token<'a>>,
    /// Words of macros that are called among the items: names that have no definition to be found may be defined by them.
    pub(super) macro_words: BTreeSet<&'a str>,
    /// The first item that is no `use` and no module: its line and name.
    pub(super) defines: Option<(usize, &'a str)>,
}

#[derive(Debug, Default)]
pub(super) struct Definition<'a> {
    pub(super) is_type: bool,
    pub(super) is_macro: bool,
    pub(super) variants: Vec<&'a str>,
}

#[derive(Debug, Default)]
pub(super) struct Crate<'a> {
    /// The first is the crate's root.
    pub(super) modules: Vec<Module<'a>>,
    /// Files that a `mod` reaches, for tests or not.
    reached: BTreeSet<&'a str>,
    problems: Vec<String>,
}

impl<'a> Crate<'a> {
    /// Reads the crate whose root is `lib.rs`. Every file has to be reached by a `mod`.
    pub(super) fn read(files: &'a Files) -> Result<Self, Vec<String>> {
        let mut found = Self::default();
        match files.get_key_value("lib.rs") {
            Some((file, text)) => {
                found.file(files, file, text, None, false);
            }
            None => found.problems.push("src/lib.rs does not exist".to_owned()),
        }
        if found.problems.is_empty() {
            let unreached = files.keys().filter(|file| !found.reached.contains(file.as_str()));
            let problem = |file| format!("src/{file}: no `mod` reaches this file: declare it, or remove it");
            found.problems = unreached.map(problem).collect();
        }
        if found.problems.is_empty() { Ok(found) } else { Err(found.problems) }
    }

    /// The files that belong to the library and not to its tests.
    pub(super) fn files(&self) -> BTreeSet<&'a str> {
        self.modules.iter().filter(|module| !module.is_test).map(|module| module.file).collect()
    }

    fn problem(&mut self, file: &str, problem: &Problem) {
        self.problems.push(format!("src/{file}:{}: {}", problem.line, problem.text));
    }

    fn file(
        &mut self,
        files: &'a Files,
        file: &'a str,
        text: &'a str,
        parent: Option<usize>,
        is_test: bool,
    ) -> Option<usize> {
        self.reached.insert(file);
        let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
        let folder = match (name, folder) {
            ("lib.rs" | "mod.rs", _) => folder.to_owned(),
            (_, "") => name.trim_end_matches(".rs").to_owned(),
            _ => file.trim_end_matches(".rs").to_owned(),
        };
        match tokens(text) {
            Ok(tokens) => self.module(files, &tokens, file, &folder, parent, is_test),
            Err(problem) => {
                self.problem(file, &problem);
                None
            }
        }
    }

    /// Adds a module and all below it. `folder` is where the files of its children are.
    fn module(
        &mut self,
        files: &'a Files,
        tokens: &[Token<'a>],
        file: &'a str,
        folder: &str,
        parent: Option<usize>,
        is_test: bool,
    ) -> Option<usize> {
        let (all_test, items) = match items(tokens) {
            Ok(found) => found,
            Err(problem) => {
                self.problem(file, &problem);
                return None;
            }
        };
        let own = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            is_test: is_test || all_test,
            children: Vec::new(),
            definitions: BTreeMap::new(),
            uses: Vec::new(),
            code: Vec::new(),
            macro_words: BTreeSet::new(),
            defines: None,
        });
        let bodies = macro_bodies(&items);
        for item in &items {
            if item.what == What::Module {
                self.child(files, item, own, folder);
            } else if !item.is_test
                && let Err(problem) = self.modules[own].add(item, &bodies)
            {
                self.problem(file, &problem);
            }
        }
        Some(own)
    }

    fn child(&mut self, files: &'a Files, item: &Item<'_, 'a>, parent: usize, folder: &str) {
        let name = item.name;
        let is_test = item.is_test || self.modules[parent].is_test;
        let file = self.modules[parent].file;
        let stem = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let child = if let Some(body) = item.body {
            self.module(files, body, file, &stem, Some(parent), is_test)
        } else {
            let places = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
            match places.iter().find_map(|place| files.get_key_value(place)) {
                Some((file, text)) => self.file(files, file, text, Some(parent), is_test),
                None => {
                    let text = format!("there is no file for `mod {name}`: neither src/{}", places.join(" nor src/"));
                    self.problem(file, &Problem { line: item.line, text });
                    None
                }
            }
        };
        self.modules[parent].children.extend(child.map(|child| (name, child)));
    }
}

/// The words in the macros that the module itself defines, by their names.
fn macro_bodies<'a>(items: &[Item<'_, 'a>]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let macros = items.iter().filter(|item| item.what == What::MacroRules);
    macros.map(|item| (item.name, words(item.tokens))).collect()
}

fn words<'a>(tokens: &[Token<'a>]) -> BTreeSet<&'a str> {
    tokens.iter().filter(|token| token.kind == Kind::Word).map(|token| token.text).collect()
}

impl<'a> Module<'a> {
    fn add(&mut self, item: &Item<'_, 'a>, bodies: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Result<(), Problem> {
        if item.what == What::Use {
            return use_tree::parse(item.body.unwrap_or_default(), item.is_public, false, &mut self.uses);
        }
        self.defines.get_or_insert((item.line, if item.name.is_empty() { "an impl" } else { item.name }));
        let code = take_uses(&without_tests(item.tokens), &mut self.uses)?;
        not_understood(&code)?;
        match item.what {
            What::MacroCall => {
                self.macro_words.extend(words(item.tokens));
                self.macro_words.extend(bodies.get(item.name).into_iter().flatten());
            }
            What::Enum | What::MacroRules | What::Type | What::Value => {
                let definition = self.definitions.entry(item.name).or_default();
                definition.is_type |= matches!(item.what, What::Enum | What::Type);
                definition.is_macro |= item.what == What::MacroRules;
                definition.variants.extend(variants(item.body.unwrap_or_default()));
            }
            _ => {}
        }
        self.code.extend(code);
        Ok(())
    }
}

/// What would hide imports.
fn not_understood(code: &[Token<'_>]) -> Result<(), Problem> {
    let problem = |token: &Token<'_>, text: &str| Err(Problem { line: token.line, text: text.to_owned() });
    for pair in code.windows(2) {
        if pair[0].is("mod") {
            return problem(&pair[0], "a module inside a function or a macro is not supported: move it out");
        }
        if pair[0].is("include") && pair[1].is("!") {
            return problem(&pair[0], "`include!` is not supported: make it a module");
        }
    }
    Ok(())
}
