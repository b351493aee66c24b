//! The rules that all of OpenAI's protocols over HTTP share. Knows none of the protocols.

pub(super) const NAME_BYTES_MAX: usize = 64;
pub(super) const TOOLS_MAX: usize = 128;

/// The time of every answer: there is no clock here.
pub(super) const CREATED: u64 = 1_790_000_000;

pub(super) fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(fits)
}
