//! Services that make pictures. Owns the checks of a picture before it is shown.

mod gemini;
mod openai;
mod placeholder;

pub use gemini::GeminiImages;
pub use openai::OpenaiImages;
pub use placeholder::PlaceholderImages;

use crate::exchange::Service;
use windlass_contract::handler::{ServiceError, picture_type};

/// A picture out of an answer, checked: its type is one that browsers and models show and the declared one, and its size is
/// allowed.
fn picture(
    service: &Service,
    base64: &str,
    said: Option<&str>,
    bytes_max: usize,
) -> Result<Vec<u8>, ServiceError> {
    if base64.len() / 4 * 3 > bytes_max.saturating_add(2) {
        return Err(too_large(service, bytes_max));
    }
    let data = base64_simd::forgiving_decode_to_vec(base64.as_bytes())
        .map_err(|_| service.unfit("holds a picture that is no base64"))?;
    if data.len() > bytes_max {
        return Err(too_large(service, bytes_max));
    }
    let Some(found) = picture_type(&data) else {
        return Err(service.unfit("holds a picture that is no PNG, JPEG or WebP"));
    };
    if said.is_some_and(|said| !is_same_type(said, found)) {
        return Err(service.unfit("holds a picture of another type than it says"));
    }
    Ok(data)
}

fn too_large(service: &Service, bytes_max: usize) -> ServiceError {
    service.unfit(&format!(
        "holds a picture of more than {bytes_max} bytes; images.picture_bytes_max allows more"
    ))
}

/// Whether a declared type, such as `image/png` or `PNG`, is the type that was found.
fn is_same_type(said: &str, found: &str) -> bool {
    let name = |text: &str| {
        let text = text.trim().to_ascii_lowercase();
        let name = text.strip_prefix("image/").unwrap_or(&text);
        let name = if name == "jpg" { "jpeg" } else { name };
        name.to_owned()
    };
    name(said) == name(found)
}
