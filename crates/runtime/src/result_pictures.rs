//! Pictures that handlers bring back in base64: read, and kept where clients and models that see find them. Knows no folder.

use windlass_tool::handler::{ContentPart, Success, World, picture_type, take_pictures};

/// Bytes of a picture that is kept.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Takes base64 out of an answer, and keeps the pictures. For a thread that may wait for the disk.
pub fn keep_pictures(success: &mut Success, world: &dyn World) {
    take_pictures(success, &mut |base64| kept(base64, world));
}

/// `None` where it is no picture, too large, or not kept.
fn kept(base64: &str, world: &dyn World) -> Option<ContentPart> {
    if base64.len() / 4 * 3 > BYTES_MAX {
        return None;
    }
    // The alphabet for addresses is read as the usual one.
    let usual = |byte: u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    };
    let base64: Vec<u8> = base64.bytes().map(usual).collect();
    let data = base64_simd::forgiving_decode_to_vec(&base64).ok()?;
    // What it is said to be may be wrong, and a model's provider refuses the whole request then.
    let mime_type = picture_type(&data)?;
    let url = world.keep_picture_here(&data)?;
    Some(ContentPart::Image {
        mime_type: mime_type.to_owned(),
        url,
    })
}
