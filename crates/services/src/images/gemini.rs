//! Pictures by an image model of Gemini: `generateContent`, whose answer has the picture among its parts.
//!
//! Sources: <https://ai.google.dev/gemini-api/docs/image-generation> and <https://ai.google.dev/api/generate-content>.

use super::picture;
use crate::exchange::{Asked, Endpoint, Service, reason};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use windlass_contract::handler::{
    CapabilityFuture, GeneratedImages, Http, ImageRequest, Images, ServiceError,
};

/// An image model of Gemini, which makes one picture for each request.
pub struct GeminiImages(Arc<Model>);

struct Model {
    service: Service,
    model: String,
    picture_bytes_max: usize,
}

impl GeminiImages {
    pub const USUAL_ADDRESS: &str = "https://generativelanguage.googleapis.com/v1beta";
    pub const USUAL_MODEL: &str = "gemini-2.5-flash-image";

    pub fn new(
        http: Arc<dyn Http>,
        endpoint: Endpoint,
        model: String,
        picture_bytes_max: usize,
    ) -> Self {
        let service = Service {
            http,
            endpoint,
            name: format!("Gemini {model}"),
            authorization: ("x-goog-api-key", ""),
        };
        Self(Arc::new(Model {
            service,
            model,
            picture_bytes_max,
        }))
    }
}

impl Images for GeminiImages {
    fn generate(
        &self,
        request: ImageRequest,
    ) -> CapabilityFuture<Result<GeneratedImages, ServiceError>> {
        let model = self.0.clone();
        Box::pin(async move {
            let mut made = GeneratedImages {
                pictures: Vec::new(),
                service: model.service.name.clone(),
                is_placeholder: false,
                shortfall: None,
            };
            for _ in 0..request.count {
                match model.one(&request).await {
                    Ok(picture) => made.pictures.push(picture),
                    Err(error) if made.pictures.is_empty() => return Err(error),
                    // Pictures that were paid for are shown.
                    Err(error) => {
                        made.shortfall = Some(error);
                        break;
                    }
                }
            }
            Ok(made)
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<PromptFeedback>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    inline_data: Option<InlineData>,
    /// A part of the model's thinking, which may hold drafts of the picture.
    #[serde(default)]
    thought: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InlineData {
    mime_type: String,
    data: String,
}

impl Model {
    async fn one(&self, request: &ImageRequest) -> Result<Vec<u8>, ServiceError> {
        let body = json!({
            "contents": [{"role": "user", "parts": [{"text": request.prompt}]}],
            "generationConfig": {
                "responseModalities": ["TEXT", "IMAGE"],
                "imageConfig": {"aspectRatio": request.aspect_ratio.text()},
            },
        });
        let count = u64::try_from(request.count.max(1)).unwrap_or(u64::MAX);
        let path = format!("/models/{}:generateContent", self.model);
        let asked = Asked::Post(&body);
        let answer = self
            .service
            .ask(&path, asked, request.timeout_ms / count)
            .await?;
        self.picture_in(self.service.read(&answer)?)
    }

    fn picture_in(&self, answer: Answer) -> Result<Vec<u8>, ServiceError> {
        if let Some(feedback) = answer.prompt_feedback
            && let Some(blocked) = feedback.block_reason_message.or(feedback.block_reason)
        {
            return Err(ServiceError::Refused(reason(&blocked)));
        }
        let Some(candidate) = answer.candidates.into_iter().next() else {
            return Err(self.service.unfit("holds no candidate"));
        };
        let parts = candidate
            .content
            .map_or(Vec::new(), |content| content.parts);
        let mut words = String::new();
        for part in parts.into_iter().filter(|part| !part.thought) {
            if let Some(inline) = part.inline_data {
                let said = Some(inline.mime_type.as_str());
                return picture(&self.service, &inline.data, said, self.picture_bytes_max);
            }
            words.push_str(part.text.as_deref().unwrap_or_default());
        }
        // A model that does not draw says why in words, or by the reason for which it stopped.
        let words = match words.trim() {
            "" => candidate.finish_message.or(candidate.finish_reason),
            words => Some(words.to_owned()),
        };
        Err(match words {
            Some(words) => ServiceError::Refused(reason(&words)),
            None => self.service.unfit("holds no picture"),
        })
    }
}
