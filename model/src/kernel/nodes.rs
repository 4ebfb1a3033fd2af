//! The table of nodes.

/// The nodes that were registered, and those that are declared dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nodes {
    /// The nodes that are declared dead, one bit each. All up to `newest` are known.
    dead: u16,
    /// Ghost: the last node id drawn. Real ids are random and never collide; counting up expresses that most simply.
    newest: u8,
}

impl Nodes {
    /// Returns the nodes of the first processes: one, two, and so on.
    pub fn first(processes: u8) -> Self {
        Self { dead: 0, newest: processes }
    }

    /// Whether the database regards this node as dead.
    pub fn is_dead(self, node: u8) -> bool {
        self.dead >> node & 1 == 1
    }

    /// Returns all that were ever registered.
    pub fn all(self) -> impl Iterator<Item = u8> {
        1..=self.newest
    }

    /// Registers a new node.
    pub fn register(&mut self) -> u8 {
        self.newest += 1;
        self.newest
    }

    /// Declares a node dead. `None`: there is no such node, or it is dead already.
    pub fn declare(&mut self, node: u8) -> Option<()> {
        if node > self.newest || self.is_dead(node) {
            return None;
        }
        self.bury(node);
        Some(())
    }

    /// Makes a node dead, whether or not it was before.
    pub fn bury(&mut self, node: u8) {
        self.dead |= 1 << node;
    }
}
