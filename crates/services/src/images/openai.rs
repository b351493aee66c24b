//! Pictures by OpenAI and by compatible servers: `POST /images/generations`.
//!
//! Source: <https://platform.openai.com/docs/api-reference/images/create>.

use super::picture;
use crate::exchange::{Asked, Endpoint, Service};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use windlass_contract::handler::{
    AspectRatio, CapabilityFuture, GeneratedImages, Http, ImageRequest, Images, ServiceError,
};

/// An image model of OpenAI's.
pub struct OpenaiImages(Arc<Model>);

struct Model {
    service: Service,
    model: String,
    picture_bytes_max: usize,
}

impl OpenaiImages {
    pub const USUAL_ADDRESS: &str = "https://api.openai.com/v1";
    pub const USUAL_MODEL: &str = "gpt-image-1";

    pub fn new(
        http: Arc<dyn Http>,
        endpoint: Endpoint,
        model: String,
        picture_bytes_max: usize,
    ) -> Self {
        let service = Service {
            http,
            endpoint,
            name: format!("OpenAI {model}"),
            authorization: ("authorization", "Bearer "),
        };
        Self(Arc::new(Model {
            service,
            model,
            picture_bytes_max,
        }))
    }
}

impl Images for OpenaiImages {
    fn generate(
        &self,
        request: ImageRequest,
    ) -> CapabilityFuture<Result<GeneratedImages, ServiceError>> {
        let model = self.0.clone();
        Box::pin(async move { model.generate(&request).await })
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Vec<Image>,
    output_format: Option<String>,
}

#[derive(Deserialize)]
struct Image {
    b64_json: Option<String>,
}

impl Model {
    async fn generate(&self, request: &ImageRequest) -> Result<GeneratedImages, ServiceError> {
        let is_dall_e = self.model.starts_with("dall-e");
        let mut body = json!({
            "model": self.model,
            "prompt": request.prompt,
            "n": request.count,
            "size": size(&self.model, request.aspect_ratio),
        });
        // The other models always answer in base64, and refuse the field.
        if is_dall_e {
            body["response_format"] = "b64_json".into();
        }
        let asked = Asked::Post(&body);
        let answer = self
            .service
            .ask("/images/generations", asked, request.timeout_ms)
            .await?;
        let answer: Answer = self.service.read(&answer)?;
        let mut made = GeneratedImages {
            pictures: Vec::new(),
            service: self.service.name.clone(),
            is_placeholder: false,
            shortfall: None,
        };
        let said = answer.output_format.as_deref();
        for image in answer.data.into_iter().take(request.count) {
            let found = match &image.b64_json {
                Some(base64) => picture(&self.service, base64, said, self.picture_bytes_max),
                None => Err(self.service.unfit("holds no picture in base64")),
            };
            match found {
                Ok(picture) => made.pictures.push(picture),
                Err(error) => made.shortfall = Some(error),
            }
        }
        if made.pictures.is_empty() {
            let none = || self.service.unfit("holds no picture");
            return Err(made.shortfall.unwrap_or_else(none));
        }
        if made.pictures.len() < request.count && made.shortfall.is_none() {
            made.shortfall = Some(
                self.service
                    .unfit("holds fewer pictures than were asked for"),
            );
        }
        Ok(made)
    }
}

/// The size nearest to a shape, among the sizes that a model takes.
fn size(model: &str, aspect_ratio: AspectRatio) -> &'static str {
    let [square, landscape, portrait] = match model {
        "dall-e-2" => ["1024x1024"; 3],
        "dall-e-3" => ["1024x1024", "1792x1024", "1024x1792"],
        _ => ["1024x1024", "1536x1024", "1024x1536"],
    };
    match aspect_ratio {
        AspectRatio::Square => square,
        AspectRatio::Landscape | AspectRatio::Wide => landscape,
        AspectRatio::Portrait | AspectRatio::Tall => portrait,
    }
}
