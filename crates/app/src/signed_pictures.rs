//! The addresses of pictures that calls bring back: signed, and good for a time. Anyone with an address can follow it until then. Knows
//! no file and no conversation.

use std::sync::Arc;
use windlass_contract::handler::PICTURES;
use windlass_runtime::client_key::{ClientKey, Purpose};

const DAY_SECONDS: u64 = 86_400;

/// Signs addresses.
#[derive(Clone)]
pub(crate) struct PictureAddresses {
    key: Arc<ClientKey>,
    /// How long an address is good, beyond the day on which it is made.
    seconds: u64,
}

impl PictureAddresses {
    pub(crate) fn new(key: Arc<ClientKey>, hours: u64) -> Self {
        Self {
            key,
            seconds: hours.saturating_mul(3_600),
        }
    }

    /// The address of a picture, by its digest. It stays the same for a day, so that a picture that is shown twice is one.
    pub(crate) fn address(&self, digest: &str, now_unix_ms: u64) -> String {
        let days = now_unix_ms / 1_000 / DAY_SECONDS + 1;
        let until = days
            .saturating_mul(DAY_SECONDS)
            .saturating_add(self.seconds);
        let signature = self.key.sign(Purpose::Picture, &signed(digest, until));
        format!("{PICTURES}{digest}?until={until}&signature={signature}")
    }
}

/// The digest in an address of a picture, whether it is signed or not.
pub(crate) fn digest_of(address: &str) -> Option<&str> {
    address.strip_prefix(PICTURES)?.split('?').next()
}

/// Whether the query of a request has a signature of this server that is still good.
pub(crate) fn opens(key: &ClientKey, digest: &str, query: Option<&str>, now_unix_ms: u64) -> bool {
    let mut until: Option<u64> = None;
    let mut signature = None;
    for part in query.unwrap_or_default().split('&') {
        match part.split_once('=') {
            Some(("until", seconds)) => until = seconds.parse().ok(),
            Some(("signature", digits)) => signature = Some(digits),
            Some(_) | None => {}
        }
    }
    let (Some(until), Some(signature)) = (until, signature) else {
        return false;
    };
    now_unix_ms / 1_000 < until
        && key.has_signed(Purpose::Picture, &signed(digest, until), signature)
}

fn signed(digest: &str, until: u64) -> String {
    format!("{digest} {until}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;
    const DAY_MS: u64 = DAY_SECONDS * 1_000;

    #[test]
    fn an_address_is_good_for_its_picture_and_for_its_time_alone() {
        let key = Arc::new(ClientKey::passing().unwrap());
        let addresses = PictureAddresses::new(key.clone(), 24);
        let (digest, other) = ("a".repeat(64), "b".repeat(64));
        let address = addresses.address(&digest, NOW_MS);
        assert_eq!(digest_of(&address), Some(digest.as_str()));
        let (_, query) = address.split_once('?').unwrap();
        let opens = |digest: &str, query: &str, now_ms| opens(&key, digest, Some(query), now_ms);
        assert!(opens(&digest, query, NOW_MS));
        assert!(opens(&digest, query, NOW_MS + DAY_MS));
        assert!(!opens(&digest, query, NOW_MS + 2 * DAY_MS));
        assert!(!opens(&other, query, NOW_MS));
        let later = query.replacen("until=1", "until=2", 1);
        for forged in [later.as_str(), "", "until=9999999999", "signature=00"] {
            assert!(!opens(&digest, forged, NOW_MS), "{forged}");
        }
        let foreign = ClientKey::passing().unwrap();
        assert!(!super::opens(&foreign, &digest, Some(query), NOW_MS));
        assert!(!super::opens(&key, &digest, None, NOW_MS));
    }

    #[test]
    fn a_picture_has_one_address_a_day() {
        let addresses = PictureAddresses::new(Arc::new(ClientKey::passing().unwrap()), 24);
        let midnight = NOW_MS - NOW_MS % DAY_MS;
        let address = |at_ms| addresses.address("d", midnight + at_ms);
        assert_eq!(address(0), address(DAY_MS - 1));
        assert_ne!(address(0), address(DAY_MS));
    }
}
