//! Who a user is as far as the server can know: one who has signed in at a proxy that says so, or a client that is known by an
//! id. Knows no session.

use http::HeaderMap;
use http::header::HeaderName;
use windlass_runtime::caller::SIGNED_IN;
use windlass_tool::id::{ClientId, UserId};

/// What stands before a claim that would look like one of them.
const CLAIMED: &str = "claimed:";
/// Characters of a name, as in the client's own claim.
const NAME_CHARACTERS_MAX: usize = 128;

pub(crate) fn is_signed_in(user: &UserId) -> bool {
    user.as_str().starts_with(SIGNED_IN)
}

/// The user whom the proxy names in its header. Two such headers, or a name of odd characters, name nobody.
pub(crate) fn signed_in(headers: &HeaderMap, header: Option<&HeaderName>) -> Option<ClientId> {
    let mut values = headers.get_all(header?).iter();
    let name = values.next()?.to_str().ok()?.trim();
    let is_good =
        !name.is_empty() && name.chars().count() <= NAME_CHARACTERS_MAX && values.next().is_none();
    is_good.then(|| ClientId::new(format!("{SIGNED_IN}{name}")))
}

/// The user behind a client, unless another is named: the one who has signed in, or the client itself.
pub(crate) fn of_client(client: &ClientId) -> UserId {
    UserId::new(client.as_str())
}

/// The user whom a client claims to speak for. It is not proven, so that it never is one who has signed in.
pub(crate) fn claimed(name: &str) -> UserId {
    match name.starts_with(SIGNED_IN) {
        true => UserId::new(format!("{CLAIMED}{name}")),
        false => UserId::new(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn check(values: &[&[u8]], user: Option<&str>) {
        let header = HeaderName::from_static("x-forwarded-user");
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&header, HeaderValue::from_bytes(value).unwrap());
        }
        let found = signed_in(&headers, Some(&header));
        assert_eq!(found.as_ref().map(ClientId::as_str), user, "{values:?}");
        assert_eq!(signed_in(&headers, None), None);
    }

    #[test]
    fn the_proxy_names_one_user_or_nobody() {
        check(&[b"ada"], Some("user:ada"));
        check(&[b" ada@example.org "], Some("user:ada@example.org"));
        check(&[], None);
        check(&[b""], None);
        check(&[b"ada", b"eve"], None);
        check(b"\xff\xfe".chunks(2).collect::<Vec<_>>().as_slice(), None);
        check(&["a".repeat(129).as_bytes()], None);
    }

    #[test]
    fn a_claim_is_never_a_sign_in() {
        for name in ["ada", "user:ada", "user:"] {
            assert!(!is_signed_in(&claimed(name)), "{name}");
        }
        let client = ClientId::new("user:ada");
        assert!(is_signed_in(&of_client(&client)));
        assert!(!is_signed_in(&of_client(&ClientId::new("c-1"))));
    }
}
