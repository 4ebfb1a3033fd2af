//! The frames around blocks: code before and after one that its reader need not see.

use std::cell::Cell;
use std::collections::BTreeMap;

const NAME: &str = "// frame: ";
/// Where the block goes.
const PLACE: &str = "/* the block */";

/// A frame, in one line before the block and one behind it: so the lines of the block keep their numbers.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Frame {
    pub(super) before: String,
    pub(super) after: String,
}

#[derive(Debug, Default)]
pub(super) struct Frames(BTreeMap<String, (Frame, Cell<bool>)>);

impl Frames {
    /// Reads the frames. A line of comment is left out.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut frames = BTreeMap::new();
        for part in text.split(NAME).skip(1) {
            let (name, code) = part.split_once('\n').unwrap_or((part, ""));
            let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            let code = lines.collect::<Vec<_>>().join(" ");
            let Some((before, after)) = code.split_once(PLACE) else {
                return Err(format!("the frame `{name}` has no `{PLACE}`"));
            };
            let frame = Frame { before: before.trim().to_owned(), after: after.trim().to_owned() };
            if frames.insert(name.trim().to_owned(), (frame, Cell::new(false))).is_some() {
                return Err(format!("there are two frames `{name}`"));
            }
        }
        Ok(Self(frames))
    }

    /// Returns the frame of this name, which is in use from now on.
    pub(super) fn get(&self, name: &str) -> Option<&Frame> {
        let (frame, used) = self.0.get(name)?;
        used.set(true);
        Some(frame)
    }

    /// Returns the names of the frames that no block has asked for.
    pub(super) fn unused(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, (_, used))| !used.get()).map(|(name, _)| name.as_str())
    }
}
