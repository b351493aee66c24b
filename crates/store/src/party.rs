//! The parties whose conversations are counted together: one address, one user, one tenant. Knows no table, and keeps no address.

use crate::hexadecimal;
use crate::id::ServerKey;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use windlass_contract::id::{ClientId, ConversationId, TenantId};
use windlass_contract::sensitive::Sensitive;

/// The beginner of a conversation, as far as the server knows. By default it cannot be told from others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beginner {
    pub address: Option<Sensitive<IpAddr>>,
    pub user: Option<ClientId>,
}

/// A party by a keyed hash, which is the same after a restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartyHash(#[serde(with = "hexadecimal")] pub [u8; 16]);

impl fmt::Debug for PartyHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PartyHash")
    }
}

/// The parties by whose shares a conversation counts, beside its tenant's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parties {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<PartyHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<PartyHash>,
}

impl Parties {
    pub fn of(beginner: &Beginner, tenant: &TenantId, key: &ServerKey) -> Self {
        let address = beginner
            .address
            .as_ref()
            .map(|one| one.expose().to_string());
        let user = beginner.user.as_ref();
        Self {
            address: address.map(|text| key.party_hash(&["address", &text])),
            user: user.map(|user| key.party_hash(&["user", tenant.as_str(), user.as_str()])),
        }
    }
}

/// The kind of a party.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartyKind {
    Address,
    User,
    Tenant,
}

impl PartyKind {
    pub const ALL: [Self; 3] = [Self::Address, Self::User, Self::Tenant];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::User => "user",
            Self::Tenant => "tenant",
        }
    }
}

/// The number of conversations that each party of a kind may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationShares {
    pub address_max: usize,
    pub user_max: usize,
    pub tenant_max: usize,
}

impl ConversationShares {
    /// The number of conversations that a party has too many for one more.
    pub(crate) fn surplus(&self, kind: PartyKind, conversations: usize) -> usize {
        let most = match kind {
            PartyKind::Address => self.address_max,
            PartyKind::User => self.user_max,
            PartyKind::Tenant => self.tenant_max,
        };
        conversations.saturating_add(1).saturating_sub(most.max(1))
    }
}

impl Default for ConversationShares {
    fn default() -> Self {
        Self {
            address_max: 20_000,
            user_max: 10_000,
            tenant_max: 200_000,
        }
    }
}

/// A conversation of any tenant.
pub type ConversationPlace = (TenantId, ConversationId);

/// A party without room for one more conversation, and its conversations that may be deleted: nothing was said or done in them, and no
/// session is in them. The ones at rest longest come first, no more than have to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowd {
    pub kind: PartyKind,
    /// The number of conversations that have to go.
    pub surplus: usize,
    pub empty: Vec<ConversationPlace>,
}

/// The most conversations that make room for a single new one.
pub(crate) const ROOM_MAX: usize = 16;

/// The conversations that have to go for one more of these parties, or the party that has too many conversations with entries.
pub(crate) fn make_room(crowds: &[Crowd]) -> Result<Vec<ConversationPlace>, PartyKind> {
    let mut going: Vec<ConversationPlace> = Vec::new();
    for crowd in crowds {
        // A conversation that goes for another party may belong to this one, too.
        let shared = crowd.empty.iter().filter(|one| going.contains(one)).count();
        let missing = crowd.surplus.saturating_sub(shared);
        let others: Vec<&ConversationPlace> = crowd
            .empty
            .iter()
            .filter(|one| !going.contains(one))
            .take(missing)
            .collect();
        if others.len() < missing {
            return Err(crowd.kind);
        }
        let others: Vec<ConversationPlace> = others.into_iter().cloned().collect();
        going.extend(others);
    }
    Ok(going)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(kind: PartyKind, surplus: usize, empty: &[&str]) -> Crowd {
        let place = |name: &&str| (TenantId::default(), ConversationId::new(*name));
        Crowd {
            kind,
            surplus,
            empty: empty.iter().map(place).collect(),
        }
    }

    #[test]
    fn what_goes_for_one_party_counts_for_the_others() {
        use PartyKind::{Address, Tenant, User};
        for (crowds, expected) in [
            (vec![], Ok(vec![])),
            (vec![crowd(Address, 1, &["a", "b"])], Ok(vec!["a"])),
            (vec![crowd(Address, 1, &[])], Err(Address)),
            (vec![crowd(Address, 2, &["a"])], Err(Address)),
            (
                vec![crowd(Address, 1, &["a", "b"]), crowd(User, 1, &["c", "a"])],
                Ok(vec!["a"]),
            ),
            (
                vec![crowd(Address, 1, &["a"]), crowd(Tenant, 2, &["c", "a"])],
                Ok(vec!["a", "c"]),
            ),
            (
                vec![crowd(Address, 1, &["a"]), crowd(User, 1, &[])],
                Err(User),
            ),
        ] {
            let names = make_room(&crowds).map(|going| {
                let names = going.into_iter().map(|(_, id)| id.to_string());
                names.collect::<Vec<_>>()
            });
            let expected: Result<Vec<String>, PartyKind> =
                expected.map(|names: Vec<&str>| names.into_iter().map(str::to_owned).collect());
            assert_eq!(names, expected, "{crowds:?}");
        }
    }

    #[test]
    fn a_party_is_the_same_under_one_key_and_is_no_other() {
        let key = ServerKey::new([7; 32]);
        let beginner = |address: [u8; 4], user: &str| Beginner {
            address: Some(Sensitive(address.into())),
            user: Some(ClientId::new(user)),
        };
        let of = |tenant: &str, beginner: &Beginner, key: &ServerKey| {
            Parties::of(beginner, &TenantId::new(tenant), key)
        };
        let ada = of("default", &beginner([192, 0, 2, 1], "ada"), &key);
        assert_eq!(ada, of("default", &beginner([192, 0, 2, 1], "ada"), &key));
        let elsewhere = of("acme", &beginner([192, 0, 2, 1], "ada"), &key);
        assert_eq!(ada.address, elsewhere.address);
        assert_ne!(ada.user, elsewhere.user);
        let other = of("default", &beginner([192, 0, 2, 2], "eve"), &key);
        assert_ne!(ada.address, other.address);
        let other_key = of(
            "default",
            &beginner([192, 0, 2, 1], "ada"),
            &ServerKey::new([8; 32]),
        );
        assert_ne!(ada, other_key);
        assert_eq!(
            of("default", &Beginner::default(), &key),
            Parties::default()
        );
    }
}
