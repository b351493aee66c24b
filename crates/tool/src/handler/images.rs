//! Making pictures as tools see it: what is asked for, and what comes back. Knows no service.

use super::{CapabilityFuture, ServiceError};
use serde::Deserialize;

/// What makes pictures.
pub trait Images: Send + Sync {
    /// Makes pictures of a prompt: one at least, where it works.
    fn generate(
        &self,
        request: ImageRequest,
    ) -> CapabilityFuture<Result<GeneratedImages, ServiceError>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRequest {
    pub prompt: String,
    pub aspect_ratio: AspectRatio,
    /// Pictures that are asked for.
    pub count: usize,
    /// From now to the end of the answer.
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
    /// As arguments write it.
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
    /// Files of the type that [`picture_type`](super::picture_type) reads from their bytes.
    pub pictures: Vec<Vec<u8>>,
    /// The service and its model, for people.
    pub service: String,
    /// Whether nothing of the prompt is in the pictures.
    pub is_placeholder: bool,
    /// Why there are fewer pictures than were asked for.
    pub shortfall: Option<ServiceError>,
}

/// What a world offers in which nothing makes pictures.
pub(super) struct NoImages;

impl Images for NoImages {
    fn generate(&self, _: ImageRequest) -> CapabilityFuture<Result<GeneratedImages, ServiceError>> {
        let off = ServiceError::Off("nothing here makes pictures".to_owned());
        Box::pin(std::future::ready(Err(off)))
    }
}
