//! Functions that the shims cannot have in JavaScript: addresses, UTF-8 and randomness. Knows no call.

use rquickjs::{Ctx, Exception, Function, Object, TypedArray};
use url::{Url, quirks};

/// Adds these functions to the shims' natives.
pub(crate) fn add<'js>(ctx: &Ctx<'js>, natives: &Object<'js>) -> rquickjs::Result<()> {
    natives.set("urlParse", Function::new(ctx.clone(), parse_url)?)?;
    natives.set("urlSet", Function::new(ctx.clone(), set_in_url)?)?;
    natives.set("utf8Encode", Function::new(ctx.clone(), encode_utf8)?)?;
    natives.set("utf8Decode", Function::new(ctx.clone(), decode_utf8)?)?;
    natives.set("randomUuid", Function::new(ctx.clone(), random_uuid)?)?;
    natives.set("randomBytes", Function::new(ctx.clone(), random_bytes)?)
}

/// `undefined` for an invalid address.
fn parse_url(address: String, base: Option<String>) -> Option<Vec<String>> {
    let base = match base {
        Some(base) => Some(Url::parse(&base).ok()?),
        None => None,
    };
    let url = Url::options()
        .base_url(base.as_ref())
        .parse(&address)
        .ok()?;
    Some(parts(&url))
}

fn set_in_url(address: String, part: String, value: String) -> Option<Vec<String>> {
    let mut url = Url::parse(&address).ok()?;
    let value = value.as_str();
    // A value that a part cannot take leaves the address as it is.
    match part.as_str() {
        "href" => url = Url::parse(value).ok()?,
        "protocol" => quirks::set_protocol(&mut url, value).unwrap_or_default(),
        "username" => quirks::set_username(&mut url, value).unwrap_or_default(),
        "password" => quirks::set_password(&mut url, value).unwrap_or_default(),
        "host" => quirks::set_host(&mut url, value).unwrap_or_default(),
        "hostname" => quirks::set_hostname(&mut url, value).unwrap_or_default(),
        "port" => quirks::set_port(&mut url, value).unwrap_or_default(),
        "pathname" => quirks::set_pathname(&mut url, value),
        "search" => quirks::set_search(&mut url, value),
        "hash" => quirks::set_hash(&mut url, value),
        _ => {}
    }
    Some(parts(&url))
}

/// The parts of an address, in the order in which the shim reads them.
fn parts(url: &Url) -> Vec<String> {
    [
        quirks::href(url),
        &quirks::origin(url),
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
    ]
    .map(str::to_owned)
    .to_vec()
}

fn encode_utf8<'js>(ctx: Ctx<'js>, text: String) -> rquickjs::Result<TypedArray<'js, u8>> {
    // Copied, so that it counts as the script's memory.
    TypedArray::new_copy(ctx, text)
}

/// Decodes bytes that are given as a character each. `undefined` if `is_fatal` and the bytes are no UTF-8.
fn decode_utf8(binary: String, is_fatal: bool) -> Option<String> {
    let bytes: Vec<u8> = binary
        .chars()
        .map(|character| character as u32 as u8)
        .collect();
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(_) if is_fatal => None,
        Err(error) => Some(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

fn fill(ctx: &Ctx<'_>, bytes: &mut [u8]) -> rquickjs::Result<()> {
    getrandom::fill(bytes)
        .map_err(|_| Exception::throw_message(ctx, "the system gives no randomness"))
}

/// A UUID of version 4.
fn random_uuid(ctx: Ctx<'_>) -> rquickjs::Result<String> {
    let mut bytes = [0; 16];
    fill(&ctx, &mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    Ok(text)
}

fn random_bytes<'js>(ctx: Ctx<'js>, count: usize) -> rquickjs::Result<TypedArray<'js, u8>> {
    let mut bytes = vec![0; count.min(65_536)];
    fill(&ctx, &mut bytes)?;
    TypedArray::new_copy(ctx, bytes)
}
