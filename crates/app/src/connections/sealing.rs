//! Texts that only this server can read or make: encrypted and authenticated under the key of connections, each for one purpose. Knows
//! no token and no file.

use base64_simd::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use windlass_runtime::client_key::ConnectionsKey;
use windlass_runtime::ids::NoRandomness;

/// Bytes of a sealed text that is looked at at all.
const SEALED_BYTES_MAX: usize = 256 * 1024;

pub(super) struct Sealer {
    key: LessSafeKey,
    random: SystemRandom,
}

impl Sealer {
    pub(super) fn new(key: &ConnectionsKey) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key.bytes());
        let key = key.expect("a key of connections is as long as the algorithm's");
        Self {
            key: LessSafeKey::new(key),
            random: SystemRandom::new(),
        }
    }

    /// Seals a text. It opens for the same purpose alone.
    pub(super) fn seal(&self, purpose: &str, text: &[u8]) -> Result<String, NoRandomness> {
        // Random nonces of 96 bits do not meet within the thousands of millions of texts that a server seals.
        let mut nonce = [0_u8; NONCE_LEN];
        let filled = self.random.fill(&mut nonce);
        filled.map_err(|_| NoRandomness {
            problem: "it gave no bytes".to_owned(),
        })?;
        let mut sealed = text.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(purpose.as_bytes());
        let done = self.key.seal_in_place_append_tag(unique, aad, &mut sealed);
        done.map_err(|_| NoRandomness {
            problem: "the text is too long to be encrypted".to_owned(),
        })?;
        let mut whole = nonce.to_vec();
        whole.extend_from_slice(&sealed);
        Ok(URL_SAFE_NO_PAD.encode_to_string(whole))
    }

    /// `None` where it was changed, sealed under another key, or for another purpose.
    pub(super) fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        if sealed.len() > SEALED_BYTES_MAX {
            return None;
        }
        let whole = URL_SAFE_NO_PAD.decode_to_vec(sealed).ok()?;
        let (nonce, sealed) = whole.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = sealed.to_vec();
        let aad = Aad::from(purpose.as_bytes());
        let length = self.key.open_in_place(nonce, aad, &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_text_opens_unchanged_for_its_purpose_alone() {
        let folder = tempfile::tempdir().unwrap();
        let sealer = || Sealer::new(&ConnectionsKey::open(folder.path()).unwrap());
        let sealed = sealer().seal("file", b"sesame").unwrap();
        assert!(!sealed.contains("sesame"));
        assert_ne!(sealer().seal("file", b"sesame").unwrap(), sealed);
        assert_eq!(sealer().open("file", &sealed).unwrap(), b"sesame");
        assert_eq!(sealer().open("link", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            // The bits beyond the last byte say nothing, and a decoder refuses them where they are set.
            assert_eq!(sealer().open("file", &changed), None, "{at}");
        }
        for foreign in ["", "AAAA", "?", &sealed[1..]] {
            assert_eq!(sealer().open("file", foreign), None, "{foreign}");
        }
        let other = tempfile::tempdir().unwrap();
        let other = Sealer::new(&ConnectionsKey::open(other.path()).unwrap());
        assert_eq!(other.open("file", &sealed), None);
    }
}
