//! Who may read which namespace. Knows users by their ids only; whether one has signed in is told to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use windlass_tool::id::UserId;

/// The readers of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    #[default]
    Everybody,
    /// Every user who has signed in.
    SignedIn,
    /// Its owner, or its owners.
    Owners(BTreeSet<UserId>),
}

/// Tells a user who signed in from one who is known by a client id alone.
pub type IsSignedIn = Arc<dyn Fn(&UserId) -> bool + Send + Sync>;

/// The namespaces that the configuration names, with their readers. Any other is everybody's.
#[derive(Clone, Default)]
pub struct Access {
    namespaces: BTreeMap<String, Readers>,
    is_signed_in: Option<IsSignedIn>,
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Access")
            .field("namespaces", &self.namespaces)
            .finish_non_exhaustive()
    }
}

impl Access {
    /// Namespaces that everybody may read.
    pub fn open(names: impl IntoIterator<Item = String>) -> Self {
        let everybodys = |name| (name, Readers::Everybody);
        Self {
            namespaces: names.into_iter().map(everybodys).collect(),
            is_signed_in: None,
        }
    }

    pub fn new(namespaces: BTreeMap<String, Readers>, is_signed_in: IsSignedIn) -> Self {
        Self {
            namespaces,
            is_signed_in: Some(is_signed_in),
        }
    }

    /// Whether the configuration names a namespace.
    pub(crate) fn names(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace)
    }

    pub(crate) fn is_everybodys(&self, namespace: &str) -> bool {
        matches!(
            self.namespaces.get(namespace),
            None | Some(Readers::Everybody)
        )
    }

    pub(crate) fn may_read(&self, user: &UserId, namespace: &str) -> bool {
        match self.namespaces.get(namespace) {
            None | Some(Readers::Everybody) => true,
            Some(Readers::SignedIn) => self
                .is_signed_in
                .as_ref()
                .is_some_and(|is_signed_in| is_signed_in(user)),
            Some(Readers::Owners(owners)) => owners.contains(user),
        }
    }
}
