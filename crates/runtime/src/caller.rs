//! The caller at the other end of a request or a connection, and the server's evidence for its identity. Knows no cookie, no key
//! and no proxy.

use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;
use windlass_contract::id::{ClientId, TenantId, UserId};
use windlass_contract::rights::{Rights, Role};
use windlass_store::{Hash, Presented};

/// Prefixes of the ids of proven callers: users, users of a tenant, and programs that are known by the name of their key. No
/// other id has one.
const PROVEN: [&str; 3] = ["user:", "user@", "key:"];

/// Whether an id has the form that only proven callers get.
pub fn is_proven_id(id: &str) -> bool {
    PROVEN.iter().any(|prefix| id.starts_with(prefix))
}

/// The reliability of a client's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquaintance {
    /// The client has shown the id, signed by this server, or has proven it.
    Shown,
    /// The id was made for a browser, which will show it from now on.
    Kept,
    /// The id was made for a program, which may never show it.
    Passing,
}

/// The proven identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvenName {
    User(String),
    /// A program that is known by the name of its key. It vouches for the users whom it names.
    Program(String),
}

impl ProvenName {
    /// A tenant's names hold no `:`, so every id can be read in one way only.
    fn id(&self, tenant: &TenantId) -> ClientId {
        ClientId::new(match self {
            Self::User(name) if *tenant == TenantId::default() => format!("user:{name}"),
            Self::User(name) => format!("user@{tenant}:{name}"),
            Self::Program(name) => format!("key:{name}"),
        })
    }
}

/// The facts that a caller has proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    pub tenant: TenantId,
    pub name: ProvenName,
    pub roles: Arc<BTreeSet<Role>>,
    /// The name of the zone in which the user lives, according to the party that vouches for the user.
    pub zone: Option<Arc<str>>,
    pub validity: Validity,
}

/// Whether a caller's credential still counts. A validity not made with [`Validity::until`] always counts.
#[derive(Clone, Debug, Default)]
pub struct Validity(Option<watch::Receiver<bool>>);

impl Validity {
    /// Counts until the flag says that the credential was withdrawn, or until the flag's sender is gone.
    pub fn until(is_withdrawn: watch::Receiver<bool>) -> Self {
        Self(Some(is_withdrawn))
    }

    pub fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|withdrawn| *withdrawn.borrow())
    }

    /// The flag of the withdrawal; `None` for a credential that cannot be withdrawn.
    pub(crate) fn withdrawal(&self) -> Option<watch::Receiver<bool>> {
        self.0.clone()
    }

    /// Waits until the credential no longer counts.
    pub async fn over(mut self) {
        match &mut self.0 {
            // An error means that the flag's sender is gone.
            Some(withdrawn) => drop(withdrawn.wait_for(|is_withdrawn| *is_withdrawn).await),
            None => std::future::pending().await,
        }
    }
}

impl PartialEq for Validity {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => one.same_channel(other),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

impl Eq for Validity {}

/// A client, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub client_id: ClientId,
    pub acquaintance: Acquaintance,
    pub tenant: TenantId,
    pub rights: Rights,
    /// Whether the caller may name the user for whom it speaks, and is believed.
    pub vouches: bool,
    /// The name of the zone in which the user lives, according to the party that vouches for the user.
    pub zone: Option<Arc<str>>,
    pub validity: Validity,
}

impl Caller {
    /// A caller about whom nothing was proven.
    pub fn unproven(client_id: ClientId, acquaintance: Acquaintance) -> Self {
        Self {
            client_id,
            acquaintance,
            tenant: TenantId::default(),
            rights: Rights::Anonymous,
            vouches: false,
            zone: None,
            validity: Validity::default(),
        }
    }

    /// A caller that has shown an id signed by this server.
    pub fn known(client_id: ClientId) -> Self {
        Self::unproven(client_id, Acquaintance::Shown)
    }

    pub fn proven(proven: Proven) -> Self {
        Self {
            client_id: proven.name.id(&proven.tenant),
            acquaintance: Acquaintance::Shown,
            rights: Rights::SignedIn(proven.roles),
            vouches: matches!(proven.name, ProvenName::Program(_)),
            tenant: proven.tenant,
            zone: proven.zone,
            validity: proven.validity,
        }
    }

    /// The caller as the user whom it names, if the caller is believed in that.
    pub fn speaking_for(&self, named: Option<&str>) -> Self {
        match named {
            Some(name) if self.vouches => Self {
                client_id: ProvenName::User(name.to_owned()).id(&self.tenant),
                vouches: false,
                ..self.clone()
            },
            Some(_) | None => self.clone(),
        }
    }

    /// The client that can own something; `None` if every caller with the id may go on with it.
    pub fn keeper(&self) -> Option<&ClientId> {
        match self.acquaintance {
            Acquaintance::Shown | Acquaintance::Kept => Some(&self.client_id),
            Acquaintance::Passing => None,
        }
    }

    /// Whether the caller is, as far as is known, another client than this one. A caller without a shown id may be anybody, so a
    /// secret has to speak for it. A secret cannot speak for a signed-in client, which would have signed in again.
    pub fn is_other_than(&self, client_id: &ClientId) -> bool {
        let has_shown = self.acquaintance == Acquaintance::Shown;
        (has_shown && self.client_id != *client_id) || self.lacks_sign_in_of(client_id)
    }

    /// The caller's credentials, with a resume token and for a user, for a session of this client:
    /// [`windlass_store::Leg::admits`] decides.
    pub fn presents(&self, resume_token: Hash, user_id: UserId, of: &ClientId) -> Presented {
        let client_id = match self.is_other_than(of) {
            true => &self.client_id,
            false => of,
        };
        Presented {
            resume_token,
            client_id: client_id.clone(),
            user_id,
        }
    }

    /// The same caller under the id of a client, after a secret has spoken for it.
    pub fn in_the_name_of(self, client_id: &ClientId) -> Self {
        match self.client_id == *client_id {
            true => self,
            false => Self {
                client_id: client_id.clone(),
                acquaintance: Acquaintance::Passing,
                ..self
            },
        }
    }

    /// Whether that client has proven its identity and the caller is another: no secret speaks for the caller then.
    fn lacks_sign_in_of(&self, client_id: &ClientId) -> bool {
        is_proven_id(client_id.as_str()) && self.client_id != *client_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presented(acquaintance: Acquaintance, id: &str, of: &str) -> String {
        let caller = Caller::unproven(ClientId::new(id), acquaintance);
        let presented = caller.presents([0; 32], UserId::new("ada"), &ClientId::new(of));
        presented.client_id.to_string()
    }

    #[test]
    fn who_has_shown_an_id_presents_it_and_who_has_none_speaks_for_the_client_of_the_session() {
        for (acquaintance, id, of, presents) in [
            (Acquaintance::Shown, "c-1", "c-1", "c-1"),
            (Acquaintance::Shown, "c-2", "c-1", "c-2"),
            (Acquaintance::Shown, "user:eve", "user:ada", "user:eve"),
            (Acquaintance::Kept, "c-2", "c-1", "c-1"),
            (Acquaintance::Passing, "c-2", "c-1", "c-1"),
            (Acquaintance::Passing, "c-2", "user:ada", "c-2"),
            (Acquaintance::Kept, "c-2", "user:ada", "c-2"),
        ] {
            assert_eq!(
                presented(acquaintance, id, of),
                presents,
                "{acquaintance:?} {id} {of}"
            );
        }
    }

    #[test]
    fn a_program_vouches_for_the_users_whom_it_names_and_nobody_else_does() {
        let proven = |tenant: &str, name| {
            Caller::proven(Proven {
                tenant: TenantId::new(tenant),
                name,
                roles: Arc::default(),
                zone: None,
                validity: Validity::default(),
            })
        };
        let user = |tenant| proven(tenant, ProvenName::User("ada".to_owned()));
        let program = |tenant| proven(tenant, ProvenName::Program("shop".to_owned()));
        for (caller, named, id) in [
            (user("default"), None, "user:ada"),
            (user("acme"), None, "user@acme:ada"),
            (user("acme"), Some("eve"), "user@acme:ada"),
            (program("acme"), None, "key:shop"),
            (program("default"), Some("eve"), "user:eve"),
            (program("acme"), Some("eve"), "user@acme:eve"),
            (
                program("acme").speaking_for(Some("eve")),
                Some("bob"),
                "user@acme:eve",
            ),
            (Caller::known(ClientId::new("c-1")), Some("user:ada"), "c-1"),
        ] {
            let speaker = caller.speaking_for(named);
            assert_eq!(speaker.client_id.as_str(), id, "{caller:?} {named:?}");
            assert_eq!(is_proven_id(id), speaker.rights.is_signed_in());
        }
    }
}
