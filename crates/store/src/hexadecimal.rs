//! Bytes of a fixed number in JSON: hexadecimal text. Lists of numbers are read, too: earlier versions wrote them.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserializer, Serializer};
use std::fmt;
use windlass_contract::json::hex;

pub(crate) fn serialize<const N: usize, S: Serializer>(
    bytes: &[u8; N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex(bytes))
}

pub(crate) fn deserialize<'de, const N: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<[u8; N], D::Error> {
    deserializer.deserialize_any(Bytes)
}

struct Bytes<const N: usize>;

impl<'de, const N: usize> Visitor<'de> for Bytes<N> {
    type Value = [u8; N];

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{N} bytes as hexadecimal digits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        parse(text).ok_or_else(|| E::custom("no hexadecimal digits of the right number"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut bytes = [0; N];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = list
                .next_element()?
                .ok_or_else(|| A::Error::invalid_length(index, &self))?;
        }
        match list.next_element::<u8>()? {
            None => Ok(bytes),
            Some(_) => Err(A::Error::invalid_length(N + 1, &self)),
        }
    }
}

/// `None` if the text is not exactly so many bytes.
pub(crate) fn parse<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if text.len() != 2 * N || !is_hexadecimal {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use crate::Nonce;

    #[test]
    fn bytes_are_read_in_both_forms_and_in_no_other() {
        let nonce = Nonce(*b"0123456789abcdef");
        let written = serde_json::to_string(&nonce).unwrap();
        assert_eq!(written, "\"30313233343536373839616263646566\"");
        let list = serde_json::to_string(&nonce.0).unwrap();
        for (text, is_read) in [
            (&*written, true),
            (&*written.to_uppercase(), true),
            (&*list, true),
            ("\"3031323334353637383961626364656\"", false),
            ("\"303132333435363738396162636465\"", false),
            ("\"+0313233343536373839616263646566\"", false),
            ("\"3031323334353637383961626364656é\"", false),
            ("[1,2]", false),
            ("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", false),
            ("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,256]", false),
            ("7", false),
        ] {
            let read = serde_json::from_str::<Nonce>(text).ok();
            assert_eq!(read, is_read.then_some(nonce), "{text}");
        }
    }
}
