//! Making pictures as tools see it: the request and the answer. Knows no service.

use super::{CapabilityFuture, ServiceError};
use serde::Deserialize;

/// A service that makes pictures.
pub trait Images: Send + Sync {
    /// Makes pictures of a prompt; at least one on success.
    fn generate(
        &self,
        request: ImageRequest,
    ) -> CapabilityFuture<Result<GeneratedImages, ServiceError>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRequest {
    pub prompt: String,
    pub aspect_ratio: AspectRatio,
    /// The number of pictures asked for.
    pub count: usize,
    /// Milliseconds from now to the end of the answer.
    pub timeout_ms: u64,
}

/// Width to height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum AspectRatio {
    #[serde(rename = "1:1")]
    Square,
    #[serde(rename = "4:3")]
    Landscape,
    #[serde(rename = "3:4")]
    Portrait,
    #[serde(rename = "16:9")]
    Wide,
    #[serde(rename = "9:16")]
    Tall,
}

impl AspectRatio {
    /// The ratio as arguments write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Square => "1:1",
            Self::Landscape => "4:3",
            Self::Portrait => "3:4",
            Self::Wide => "16:9",
            Self::Tall => "9:16",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedImages {
    /// The files, of the types that [`picture_type`](super::picture_type) reads from their bytes.
    pub pictures: Vec<Vec<u8>>,
    /// The service and its model, for people.
    pub service: String,
    /// Whether the pictures show nothing of the prompt.
    pub is_placeholder: bool,
    /// The reason why there are fewer pictures than asked for.
    pub shortfall: Option<ServiceError>,
}

/// The images where nothing makes pictures.
pub(super) struct NoImages;

impl Images for NoImages {
    fn generate(&self, _: ImageRequest) -> CapabilityFuture<Result<GeneratedImages, ServiceError>> {
        let off = ServiceError::Off("nothing here makes pictures".to_owned());
        Box::pin(std::future::ready(Err(off)))
    }
}
