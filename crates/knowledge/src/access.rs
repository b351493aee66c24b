//! The readers of each namespace. Knows users by their ids and their proven roles.

use std::collections::{BTreeMap, BTreeSet};
use windlass_contract::handler::KnowledgeReader;
use windlass_contract::id::UserId;
use windlass_contract::rights::Role;

/// The readers of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    #[default]
    Everybody,
    /// Every user who has signed in.
    SignedIn,
    /// Users with one of these roles.
    Roles(BTreeSet<Role>),
    /// Its owner, or its owners.
    Owners(BTreeSet<UserId>),
}

/// The namespaces that the configuration names, with their readers. Everybody may read all others.
#[derive(Clone, Debug, Default)]
pub struct Access {
    namespaces: BTreeMap<String, Readers>,
}

impl Access {
    /// Namespaces that everybody may read.
    pub fn open(names: impl IntoIterator<Item = String>) -> Self {
        let everybodys = |name| (name, Readers::Everybody);
        Self::new(names.into_iter().map(everybodys).collect())
    }

    pub fn new(namespaces: BTreeMap<String, Readers>) -> Self {
        Self { namespaces }
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

    pub(crate) fn may_read(&self, reader: &KnowledgeReader, namespace: &str) -> bool {
        match self.namespaces.get(namespace) {
            None | Some(Readers::Everybody) => true,
            Some(Readers::SignedIn) => reader.rights.is_signed_in(),
            Some(Readers::Roles(roles)) => reader.rights.have_one_of(roles),
            Some(Readers::Owners(owners)) => owners.contains(&reader.user_id),
        }
    }
}
