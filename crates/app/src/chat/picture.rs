//! Pictures that clients of the chat send along: their types, their number and their size. Fetches no address that a client names, and
//! does not look at a picture's content.

use crate::body::BadRequest;
use std::sync::Arc;
use windlass_config::{Config, TextProvider};
use windlass_contract::sensitive::Sensitive;
use windlass_provider::log::Image;

/// The limits on the pictures of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureLimits {
    pub(crate) images_max: usize,
    /// Bytes of all of them together.
    pub(crate) bytes_max: usize,
    /// The types that the configured provider takes.
    types: &'static [&'static str],
}

/// Every type that some provider takes: servers that nothing is known of may take them all.
const ALL_TYPES: [&str; 6] = [
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/gif",
    "image/heic",
    "image/heif",
];
/// <https://ai.google.dev/gemini-api/docs/image-understanding>.
const GEMINI_TYPES: [&str; 5] = [
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
];
/// <https://platform.openai.com/docs/guides/images-vision>. A GIF may not move, which is OpenAI's to see.
const OPENAI_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];

impl PictureLimits {
    /// Whatever some provider takes.
    pub(crate) const WIDEST: Self = Self {
        images_max: 64,
        bytes_max: 64 << 20,
        types: &ALL_TYPES,
    };

    pub(crate) fn of(config: &Config) -> Self {
        let text = &config.text;
        Self {
            images_max: text.images_max.count(),
            bytes_max: text.images_bytes_max.count(),
            types: match config.text_provider {
                TextProvider::Gemini => &GEMINI_TYPES,
                TextProvider::Openai if text.url.is_none() => &OPENAI_TYPES,
                TextProvider::Openai | TextProvider::Demo => &ALL_TYPES,
            },
        }
    }
}

/// The pictures of one message, as they are read.
pub(crate) struct Pictures {
    limits: PictureLimits,
    images: Vec<Image>,
    bytes: usize,
}

impl Pictures {
    pub(crate) fn new(limits: PictureLimits) -> Self {
        Self {
            limits,
            images: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes the picture of a `data:` URL.
    ///
    /// # Errors
    ///
    /// It is no picture in this form, of no type that models see, or more than a message may hold.
    pub(crate) fn take(&mut self, url: &str) -> Result<(), BadRequest> {
        let PictureLimits {
            images_max,
            bytes_max,
            types,
        } = self.limits;
        if self.images.len() >= images_max {
            return Err(BadRequest(format!(
                "a message may hold at most {images_max} pictures (text.images_max); send fewer"
            )));
        }
        let (mime_type, data) = read(url, types)?;
        self.bytes += data.len() / 4 * 3;
        if self.bytes > bytes_max {
            return Err(BadRequest(format!(
                "the pictures of a message may have at most {bytes_max} bytes together (text.images_bytes_max); make \
                 them smaller"
            )));
        }
        let data = base64_simd::STANDARD
            .decode_to_vec(data)
            .map_err(|_| BadRequest("a picture is not written in base64".to_owned()))?;
        self.images.push(Image {
            mime_type: mime_type.to_owned(),
            data: Sensitive(Arc::from(data)),
        });
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    pub(crate) fn into_images(self) -> Vec<Image> {
        self.images
    }
}

/// The type and the base64 text of a picture.
fn read<'a>(url: &'a str, types: &[&str]) -> Result<(&'a str, &'a str), BadRequest> {
    let refuse = |problem: &str| BadRequest(problem.to_owned());
    let (head, data) = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(','))
        .ok_or_else(|| {
            refuse("a picture must come as a data: URL; this server fetches nothing that a client names")
        })?;
    let mime_type = head
        .strip_suffix(";base64")
        .ok_or_else(|| refuse("a picture must be written in base64"))?;
    if types.contains(&mime_type) {
        return Ok((mime_type, data));
    }
    let taken: Vec<&str> = types
        .iter()
        .filter_map(|known| known.strip_prefix("image/"))
        .collect();
    let taken = taken.join(", ");
    Err(BadRequest(match ALL_TYPES.contains(&mime_type) {
        true => format!(
            "the model's provider takes no picture of the type {mime_type}; send one of {taken}"
        ),
        false => format!("a file must be a picture: {taken}"),
    }))
}
