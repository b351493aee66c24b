//! Rights: the proven roles of a caller, and the roles that a tool requires. Knows no key, no token and no session.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The most characters of a role's name.
const ROLE_CHARACTERS_MAX: usize = 64;

/// A user's role in an organisation, such as `staff`: 1 to 64 letters, digits and the marks `. _ : / -` in ASCII.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Role(Arc<str>);

impl Role {
    /// Checks the text against the rule; `None` where it fails.
    pub fn parse(text: &str) -> Option<Self> {
        let is_good = (1..=ROLE_CHARACTERS_MAX).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte));
        is_good.then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(
                "a role has 1 to 64 letters, digits and marks out of . _ : / -",
            )
        })
    }
}

/// The proven rights of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rights {
    /// Nothing is proven.
    #[default]
    Anonymous,
    /// The caller is known, with these roles.
    SignedIn(Arc<BTreeSet<Role>>),
}

impl Rights {
    pub fn signed_in(roles: impl IntoIterator<Item = Role>) -> Self {
        Self::SignedIn(Arc::new(roles.into_iter().collect()))
    }

    pub fn is_signed_in(&self) -> bool {
        match self {
            Self::Anonymous => false,
            Self::SignedIn(_) => true,
        }
    }

    /// Whether the caller has one of these proven roles.
    pub fn have_one_of(&self, roles: &BTreeSet<Role>) -> bool {
        match self {
            Self::Anonymous => false,
            Self::SignedIn(own) => !own.is_disjoint(roles),
        }
    }
}

/// The callers who may use a tool, and those who may approve its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Permissions {
    /// Whether callers have to be signed in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub requires_auth: bool,
    /// The roles, one of which a caller needs. Empty: every caller may.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<Role>,
    /// The roles, one of which an approver needs. Empty: every user of the tool may.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub approver_roles: BTreeSet<Role>,
}

impl Permissions {
    /// Whether nothing is restricted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a caller may use the tool.
    pub fn allow(&self, rights: &Rights) -> bool {
        match self.roles.is_empty() {
            true => !self.requires_auth || rights.is_signed_in(),
            false => rights.have_one_of(&self.roles),
        }
    }

    /// Whether a caller may approve a call of the tool.
    pub fn allow_approval(&self, rights: &Rights) -> bool {
        match self.approver_roles.is_empty() {
            true => self.allow(rights),
            false => rights.have_one_of(&self.approver_roles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(names: &[&str]) -> BTreeSet<Role> {
        names.iter().filter_map(|name| Role::parse(name)).collect()
    }

    #[test]
    fn a_tool_is_for_those_whom_its_permissions_name() {
        let anonymous = Rights::Anonymous;
        let nobody_special = Rights::signed_in([]);
        let staff = Rights::signed_in(roles(&["staff", "nurse"]));
        let manager = Rights::signed_in(roles(&["manager"]));
        for (requires_auth, of_use, of_approval, users, approvers) in [
            (false, &[][..], &[][..], [true; 4], [true; 4]),
            (
                true,
                &[],
                &[],
                [false, true, true, true],
                [false, true, true, true],
            ),
            (
                false,
                &["staff"],
                &[],
                [false, false, true, false],
                [false, false, true, false],
            ),
            (
                false,
                &["staff", "manager"],
                &[],
                [false, false, true, true],
                [false, false, true, true],
            ),
            (
                false,
                &["staff"],
                &["manager"],
                [false, false, true, false],
                [false, false, false, true],
            ),
        ] {
            let permissions = Permissions {
                requires_auth,
                roles: roles(of_use),
                approver_roles: roles(of_approval),
            };
            for (index, rights) in [&anonymous, &nobody_special, &staff, &manager]
                .iter()
                .enumerate()
            {
                assert_eq!(
                    permissions.allow(rights),
                    users[index],
                    "{permissions:?} {rights:?}"
                );
                assert_eq!(
                    permissions.allow_approval(rights),
                    approvers[index],
                    "{permissions:?} {rights:?}"
                );
            }
        }
    }

    #[test]
    fn a_role_is_short_and_printable() {
        for (text, good) in [
            ("staff", true),
            ("app:Read/all-1.x_y", true),
            ("", false),
            ("two words", false),
            ("ä", false),
            (&"r".repeat(65), false),
        ] {
            assert_eq!(Role::parse(text).is_some(), good, "{text:?}");
        }
    }
}
