//! Signatures of Standard Webhooks: HMAC-SHA-256 over id, time and body. Knows no connection.

use base64_simd::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Seconds by which a signed message may be old, or ahead.
const TOLERANCE_SECONDS: u64 = 300;
/// Bytes of a key, according to the specification.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=64;

/// The key of both sides.
pub struct SigningKey(Hmac<Sha256>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no secret of Standard Webhooks; write whsec_ and 24 to 64 random bytes in base64")]
pub struct UnfitSecret;

/// The reason why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningRefusal {
    #[error("the headers webhook-id, webhook-timestamp and webhook-signature are missing")]
    Unsigned,
    #[error("the message is too old, or from the future")]
    OutOfTime,
    #[error("the signature is another one")]
    Forged,
}

impl SigningKey {
    /// `whsec_` and base64, or base64 alone.
    pub fn parse(secret: &str) -> Result<Self, UnfitSecret> {
        let encoded = secret.trim();
        let encoded = encoded.strip_prefix("whsec_").unwrap_or(encoded);
        let bytes = STANDARD
            .decode_to_vec(encoded.as_bytes())
            .map_err(|_| UnfitSecret)?;
        if !KEY_BYTES.contains(&bytes.len()) {
            return Err(UnfitSecret);
        }
        let key = Hmac::new_from_slice(&bytes).map_err(|_| UnfitSecret)?;
        Ok(Self(key))
    }

    fn signed(&self, id: &str, seconds: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }

    /// The header `webhook-signature`.
    pub fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        let mac = self.signed(id, &seconds.to_string(), body).finalize();
        format!("v1,{}", STANDARD.encode_to_string(mac.into_bytes()))
    }

    /// Whether one of the signatures of a message is this key's, and the message's time is current.
    ///
    /// # Errors
    ///
    /// The reason why the message is refused.
    pub fn verify(
        &self,
        [id, timestamp, signatures]: [&str; 3],
        body: &[u8],
        now_seconds: u64,
    ) -> Result<(), SigningRefusal> {
        if id.is_empty() || timestamp.is_empty() || signatures.is_empty() {
            return Err(SigningRefusal::Unsigned);
        }
        let seconds = timestamp.parse::<u64>();
        let is_of_now =
            seconds.is_ok_and(|seconds| now_seconds.abs_diff(seconds) <= TOLERANCE_SECONDS);
        if !is_of_now {
            return Err(SigningRefusal::OutOfTime);
        }
        let is_ours = |signature: &str| {
            let encoded = signature.strip_prefix("v1,").unwrap_or_default();
            let bytes = STANDARD
                .decode_to_vec(encoded.as_bytes())
                .unwrap_or_default();
            // The comparison takes constant time.
            let mac = self.signed(id, timestamp, body);
            mac.verify_slice(&bytes).is_ok()
        };
        match signatures.split(' ').any(is_ours) {
            true => Ok(()),
            false => Err(SigningRefusal::Forged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = b"{\"test\": 2432232314}";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const SECONDS: u64 = 1_614_265_330;

    #[test]
    fn a_message_is_signed_as_the_reference_libraries_do() {
        let key = SigningKey::parse(SECRET).unwrap();
        assert_eq!(key.sign(ID, SECONDS, BODY), SIGNATURE);
    }

    #[test]
    fn only_a_message_of_now_with_this_signature_is_believed() {
        let key = SigningKey::parse(SECRET).unwrap();
        let time = SECONDS.to_string();
        let two = format!("v1,xxxx {SIGNATURE}");
        for (headers, body, now, expected) in [
            ([ID, &time, SIGNATURE], BODY, SECONDS, Ok(())),
            ([ID, &time, &two], BODY, SECONDS + 300, Ok(())),
            (
                [ID, &time, SIGNATURE],
                BODY,
                SECONDS + 301,
                Err(SigningRefusal::OutOfTime),
            ),
            (
                [ID, &time, SIGNATURE],
                BODY,
                SECONDS - 301,
                Err(SigningRefusal::OutOfTime),
            ),
            (
                [ID, "soon", SIGNATURE],
                BODY,
                SECONDS,
                Err(SigningRefusal::OutOfTime),
            ),
            (
                [ID, &time, ""],
                BODY,
                SECONDS,
                Err(SigningRefusal::Unsigned),
            ),
            (
                [ID, &time, SIGNATURE],
                b"{}",
                SECONDS,
                Err(SigningRefusal::Forged),
            ),
            (
                ["msg_other", &time, SIGNATURE],
                BODY,
                SECONDS,
                Err(SigningRefusal::Forged),
            ),
            (
                [ID, &time, "v1a,abc v1, v1"],
                BODY,
                SECONDS,
                Err(SigningRefusal::Forged),
            ),
        ] {
            assert_eq!(key.verify(headers, body, now), expected, "{headers:?}");
        }
    }

    #[test]
    fn a_secret_is_base64_of_enough_bytes() {
        for (secret, is_good) in [
            (SECRET, true),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true),
            ("whsec_", false),
            ("whsec_c2hvcnQ=", false),
            ("not base64 at all!", false),
        ] {
            assert_eq!(SigningKey::parse(secret).is_ok(), is_good, "{secret}");
        }
    }
}
