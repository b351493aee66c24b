//! Pictures that handlers return in base64: read, and kept for clients and for models that see. Knows no folder.

use windlass_contract::handler::{Capabilities, ContentPart, Success, picture_type, take_pictures};

/// Bytes of a picture that is kept.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Takes base64 out of an answer, and keeps the pictures. Call it on a thread that may wait for the disk.
pub fn keep_pictures(success: &mut Success, capabilities: &dyn Capabilities) {
    take_pictures(success, &mut |base64| kept(base64, capabilities));
}

/// `None` if the data are no picture, too large, or not kept.
fn kept(base64: &str, capabilities: &dyn Capabilities) -> Option<ContentPart> {
    if base64.len() / 4 * 3 > BYTES_MAX {
        return None;
    }
    // Base64 for URLs is read as the usual kind.
    let usual = |byte: u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    };
    let base64: Vec<u8> = base64.bytes().map(usual).collect();
    let data = base64_simd::forgiving_decode_to_vec(&base64).ok()?;
    // The declared type may be wrong, and a model's provider would then refuse the whole request.
    let mime_type = picture_type(&data)?;
    let url = capabilities.keep_picture_here(&data)?;
    Some(ContentPart::Image {
        mime_type: mime_type.to_owned(),
        url,
    })
}
