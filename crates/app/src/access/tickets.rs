//! The tokens that the server signs for browsers: tickets, which are good for one use within a minute, and the page's cookie. Both say
//! who a caller is. Knows keys by their ids alone, and no route.

use super::key_ring::KeyId;
use super::signed_out::{SignedOut, SignedOutError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use windlass_config::Access;
use windlass_contract::id::TenantId;
use windlass_contract::kind::Mode;
use windlass_contract::rights::Role;
use windlass_runtime::caller::{Proven, ProvenName, Validity};
use windlass_runtime::client_key::{ClientKey, Purpose};
use windlass_runtime::ids::{self, NoRandomness};

/// The prefix of every ticket.
pub(crate) const TICKET_PREFIX: &str = "wlt_";
/// The cookie of a browser that is signed in on the page.
pub(crate) const PAGE_COOKIE: &str = "windlass_page";
/// The longest text that is read, in bytes.
const TEXT_BYTES_MAX: usize = 8 * 1024;
/// How often used tickets are forgotten whose time is over, where there is no room.
const SWEEP_MS: u64 = 1_000;

/// The means by which a caller is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    Key,
    Ticket,
    Token,
    Page,
    Proxy,
}

/// The identity of a caller, in writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) tenant: TenantId,
    #[serde(flatten)]
    pub(crate) name: GrantedName,
    pub(crate) roles: Vec<Role>,
    /// The name of the zone in which the user lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<Arc<str>>,
    /// The key behind the grant: if the key ends, the grant ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<KeyId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GrantedName {
    User(String),
    Program(String),
}

impl Grant {
    pub(crate) fn of(proven: &Proven, key: Option<KeyId>) -> Self {
        Self {
            tenant: proven.tenant.clone(),
            name: match &proven.name {
                ProvenName::User(name) => GrantedName::User(name.clone()),
                ProvenName::Program(name) => GrantedName::Program(name.clone()),
            },
            roles: proven.roles.iter().cloned().collect(),
            zone: proven.zone.clone(),
            key,
        }
    }

    pub(crate) fn proven(self, validity: Validity) -> Proven {
        Proven {
            tenant: self.tenant,
            name: match self.name {
                GrantedName::User(name) => ProvenName::User(name),
                GrantedName::Program(name) => ProvenName::Program(name),
            },
            roles: Arc::new(self.roles.into_iter().collect()),
            zone: self.zone,
            validity,
        }
    }
}

/// The terms of a ticket, or of its use. A term that the ticket leaves out is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TicketTerms {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<Mode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
}

/// Why a ticket does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TicketProblem {
    /// It is no ticket of this process, or was used before.
    Unknown,
    Expired,
    OtherMode,
    OtherOrigin,
    /// Too many are remembered.
    Full,
}

#[derive(Serialize, Deserialize)]
struct Ticket {
    number: String,
    expires_unix_ms: u64,
    #[serde(flatten)]
    terms: TicketTerms,
    grant: Grant,
}

/// Makes tickets, and takes each once. Its key lives as long as the process, so that no ticket is used again after a restart.
pub(crate) struct TicketOffice {
    key: ClientKey,
    good_for_ms: u64,
    used_max: usize,
    used: Mutex<Used>,
}

/// The tickets that were used, with the time until which each would have been good.
#[derive(Default)]
struct Used {
    until_unix_ms: HashMap<String, u64>,
    swept_unix_ms: u64,
}

impl TicketOffice {
    pub(crate) fn new(access: &Access) -> Result<Self, NoRandomness> {
        Ok(Self {
            key: ClientKey::passing()?,
            good_for_ms: access.ticket_seconds.get() * 1_000,
            used_max: access.tickets_max.count(),
            used: Mutex::default(),
        })
    }

    /// A ticket, and when it expires.
    pub(crate) fn issue(
        &self,
        grant: Grant,
        terms: TicketTerms,
        now_unix_ms: u64,
    ) -> Result<(String, u64), NoRandomness> {
        let expires_unix_ms = now_unix_ms + self.good_for_ms;
        let ticket = Ticket {
            number: ids::random_hex()?,
            expires_unix_ms,
            terms,
            grant,
        };
        let sealed = seal(&self.key, Purpose::Ticket, &ticket);
        Ok((format!("{TICKET_PREFIX}{sealed}"), expires_unix_ms))
    }

    /// Takes a ticket. It is used up by that, also where it turns out to be for something else.
    pub(crate) fn redeem(
        &self,
        text: &str,
        used_for: &TicketTerms,
        now_unix_ms: u64,
    ) -> Result<Grant, TicketProblem> {
        let ticket: Ticket = text
            .strip_prefix(TICKET_PREFIX)
            .and_then(|sealed| unseal(&self.key, Purpose::Ticket, sealed))
            .ok_or(TicketProblem::Unknown)?;
        if now_unix_ms >= ticket.expires_unix_ms {
            return Err(TicketProblem::Expired);
        }
        self.use_up(&ticket, now_unix_ms)?;
        if ticket.terms.mode.is_some()
            && used_for.mode.is_some()
            && ticket.terms.mode != used_for.mode
        {
            return Err(TicketProblem::OtherMode);
        }
        if ticket.terms.origin.is_some() && ticket.terms.origin != used_for.origin {
            return Err(TicketProblem::OtherOrigin);
        }
        Ok(ticket.grant)
    }

    fn use_up(&self, ticket: &Ticket, now_unix_ms: u64) -> Result<(), TicketProblem> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.until_unix_ms.contains_key(&ticket.number) {
            return Err(TicketProblem::Unknown);
        }
        let is_full = used.until_unix_ms.len() >= self.used_max;
        if is_full && now_unix_ms >= used.swept_unix_ms + SWEEP_MS {
            used.until_unix_ms.retain(|_, until| now_unix_ms < *until);
            used.swept_unix_ms = now_unix_ms;
        }
        if used.until_unix_ms.len() >= self.used_max {
            return Err(TicketProblem::Full);
        }
        used.until_unix_ms
            .insert(ticket.number.clone(), ticket.expires_unix_ms);
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct PageSession {
    expires_unix_ms: u64,
    grant: Grant,
}

/// Makes and reads the page's cookies. They outlive the process, as their key does.
pub(crate) struct PageSessions {
    key: Arc<ClientKey>,
    good_for_minutes: u64,
    signed_out: SignedOut,
}

impl PageSessions {
    pub(super) fn new(key: Arc<ClientKey>, good_for_minutes: u64, signed_out: SignedOut) -> Self {
        Self {
            key,
            good_for_minutes,
            signed_out,
        }
    }

    /// The whole cookie.
    pub(crate) fn cookie(&self, grant: Grant, is_secure: bool, now_unix_ms: u64) -> String {
        let seconds = self.good_for_minutes * 60;
        let session = PageSession {
            expires_unix_ms: now_unix_ms + seconds * 1_000,
            grant,
        };
        let sealed = seal(&self.key, Purpose::Page, &session);
        cookie(PAGE_COOKIE, &sealed, "/", "Strict", seconds, is_secure)
    }

    pub(super) fn open(&self, text: &str, now_unix_ms: u64) -> Option<Grant> {
        self.session(text, now_unix_ms).map(|session| session.grant)
    }

    /// Signs a browser out, so that its cookie counts nowhere any more. Anything else than a cookie that counts is nothing to do.
    pub(crate) fn end(&self, text: &str, now_unix_ms: u64) -> Result<(), SignedOutError> {
        match self.session(text, now_unix_ms) {
            Some(session) => self
                .signed_out
                .add(text, session.expires_unix_ms, now_unix_ms),
            None => Ok(()),
        }
    }

    fn session(&self, text: &str, now_unix_ms: u64) -> Option<PageSession> {
        let session: PageSession = unseal(&self.key, Purpose::Page, text)?;
        let counts = now_unix_ms < session.expires_unix_ms && !self.signed_out.has(text);
        counts.then_some(session)
    }
}

/// The cookie that takes the page's away.
pub(crate) fn no_page_cookie() -> String {
    cookie(PAGE_COOKIE, "", "/", "Strict", 0, false)
}

pub(super) fn cookie(
    name: &str,
    value: &str,
    path: &str,
    same_site: &str,
    seconds: u64,
    is_secure: bool,
) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!(
        "{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}"
    )
}

/// Encodes a value in a form that can travel and that only this server can make.
pub(super) fn seal(key: &ClientKey, purpose: Purpose, value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).expect("grants are plain JSON");
    let mut sealed = base64_simd::URL_SAFE_NO_PAD.encode_to_string(text);
    let signature = key.sign(purpose, &sealed);
    sealed.push('.');
    sealed.push_str(&signature);
    sealed
}

pub(super) fn unseal<T: DeserializeOwned>(
    key: &ClientKey,
    purpose: Purpose,
    text: &str,
) -> Option<T> {
    let (sealed, signature) = text
        .split_once('.')
        .filter(|_| text.len() <= TEXT_BYTES_MAX)?;
    if !key.has_signed(purpose, sealed, signature) {
        return None;
    }
    let text = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(sealed).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_config::{Config, Flag, Loaded, Sources};

    const NOW: u64 = 1_795_000_000_000;

    fn config(tickets_max: &str) -> Config {
        let flags = vec![Flag {
            name: "--test",
            key: "access.tickets_max",
            value: tickets_max.to_owned(),
        }];
        let loaded = Loaded::load(&Sources {
            working_directory: "/nowhere".into(),
            flags,
            ..Sources::default()
        });
        loaded.unwrap().config
    }

    fn office(tickets_max: &str) -> TicketOffice {
        TicketOffice::new(&config(tickets_max).access).unwrap()
    }

    fn grant() -> Grant {
        Grant {
            tenant: TenantId::new("acme"),
            name: GrantedName::User("ada".to_owned()),
            roles: vec![Role::parse("staff").unwrap()],
            zone: Some("Europe/Oslo".into()),
            key: None,
        }
    }

    fn terms(mode: Option<Mode>, origin: Option<&str>) -> TicketTerms {
        TicketTerms {
            mode,
            origin: origin.map(str::to_owned),
        }
    }

    #[test]
    fn a_ticket_is_good_for_one_use_of_its_kind_in_its_time() {
        let (voice, text) = (Some(Mode::Voice), Some(Mode::Text));
        let (own, other) = (Some("https://shop.example"), Some("https://evil.example"));
        for (made_for, used_for, late_ms, expected) in [
            (terms(None, None), terms(voice, None), 0, Ok(())),
            (terms(voice, own), terms(voice, own), 59_999, Ok(())),
            (
                terms(voice, None),
                terms(text, None),
                0,
                Err(TicketProblem::OtherMode),
            ),
            (terms(voice, None), terms(None, None), 0, Ok(())),
            (
                terms(None, own),
                terms(text, other),
                0,
                Err(TicketProblem::OtherOrigin),
            ),
            (
                terms(None, own),
                terms(text, None),
                0,
                Err(TicketProblem::OtherOrigin),
            ),
            (
                terms(None, own),
                terms(text, Some("null")),
                0,
                Err(TicketProblem::OtherOrigin),
            ),
            (
                terms(None, None),
                terms(text, None),
                60_000,
                Err(TicketProblem::Expired),
            ),
        ] {
            let office = office("10");
            let what = format!("{made_for:?} {used_for:?} {late_ms}");
            let (ticket, expires) = office.issue(grant(), made_for, NOW).unwrap();
            assert_eq!(expires, NOW + 60_000);
            let used = office.redeem(&ticket, &used_for, NOW + late_ms);
            assert_eq!(used, expected.map(|()| grant()), "{what}");
            let again = office.redeem(&ticket, &used_for, NOW + late_ms);
            let expected = match expected {
                Err(TicketProblem::Expired) => TicketProblem::Expired,
                _ => TicketProblem::Unknown,
            };
            assert_eq!(again, Err(expected), "{what}");
        }
    }

    #[test]
    fn nobody_else_makes_a_ticket() {
        let (own, other) = (office("10"), office("10"));
        let (ticket, _) = own.issue(grant(), TicketTerms::default(), NOW).unwrap();
        let redeem = |text: &str| own.redeem(text, &TicketTerms::default(), NOW);
        let (foreign, _) = other.issue(grant(), TicketTerms::default(), NOW).unwrap();
        let (body, signature) = ticket.split_once('.').unwrap();
        let forged = base64_simd::URL_SAFE_NO_PAD.encode_to_string(b"{}");
        for text in [
            foreign.as_str(),
            "wlt_",
            "wlt_.",
            body,
            &format!("{body}."),
            &format!("{body}.{}", &signature[1..]),
            &format!("wlt_{forged}.{signature}"),
            &ticket[4..],
            &format!("wlt_{}", "a".repeat(20_000)),
        ] {
            assert_eq!(redeem(text), Err(TicketProblem::Unknown), "{text:.80}");
        }
        assert_eq!(redeem(&ticket), Ok(grant()));
    }

    #[test]
    fn used_tickets_are_remembered_until_they_would_have_expired() {
        let office = office("2");
        let mut ticket = |at| office.issue(grant(), TicketTerms::default(), at).unwrap().0;
        let tickets: Vec<String> = [NOW, NOW + 10_000, NOW + 10_000].map(&mut ticket).into();
        let late = ticket(NOW + 60_000);
        let redeem =
            |ticket: &str, at| office.redeem(ticket, &TicketTerms::default(), at).map(drop);
        assert_eq!(redeem(&tickets[0], NOW + 10_000), Ok(()));
        assert_eq!(redeem(&tickets[1], NOW + 10_000), Ok(()));
        assert_eq!(redeem(&tickets[2], NOW + 10_000), Err(TicketProblem::Full));
        assert_eq!(redeem(&late, NOW + 60_000), Ok(()));
        assert_eq!(
            redeem(&tickets[1], NOW + 60_000),
            Err(TicketProblem::Unknown)
        );
    }

    #[test]
    fn a_page_stays_signed_in_for_its_time_and_a_ticket_is_no_cookie() {
        let folder = tempfile::tempdir().unwrap();
        let key = Arc::new(ClientKey::open(folder.path()).unwrap());
        let signed_out = SignedOut::open(folder.path(), NOW).unwrap();
        let pages = PageSessions::new(key.clone(), 10, signed_out);
        let cookie = pages.cookie(grant(), true, NOW);
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(
            attributes,
            "Path=/; Max-Age=600; HttpOnly; SameSite=Strict; Secure"
        );
        let value = pair.strip_prefix("windlass_page=").unwrap();
        assert_eq!(pages.open(value, NOW + 599_999), Some(grant()));
        assert_eq!(pages.open(value, NOW + 600_000), None);
        pages.end(value, NOW).unwrap();
        assert_eq!(pages.open(value, NOW), None);
        pages.end("nothing", NOW).unwrap();
        let session = PageSession {
            expires_unix_ms: NOW + 1,
            grant: grant(),
        };
        let for_other_purpose = seal(&key, Purpose::Ticket, &session);
        assert_eq!(pages.open(&for_other_purpose, NOW), None);
    }
}
