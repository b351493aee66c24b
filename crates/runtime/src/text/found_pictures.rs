//! Pictures of calls' results on this server: read before the model is asked again, if a model sees. The model's provider fetches
//! pictures on other servers. Knows no folder and no protocol.

use super::TurnSink;
use super::patience::Patience;
use super::session::{DuePicture, TextSession, Wake};
use windlass_contract::envelope::ProjectionBody;
use windlass_contract::handler::{ASSETS, ContentPart, PICTURES};
use windlass_contract::sensitive::Sensitive;
use windlass_provider::log::{Entry, Image};
use windlass_session::model::ModelToolResponse;

/// Pictures that wait to be read. After a turn that was given up, the next turn reads them, because their calls' answers are in
/// the log.
const DUE_MAX: usize = 8;

impl TextSession {
    /// Remembers the pictures of an answer that are to be read.
    pub(super) fn expect_pictures(&mut self, response: &ModelToolResponse) {
        let ProjectionBody::Success { content, .. } = &response.projection.body else {
            return;
        };
        if content.is_empty() || !self.settings.models.iter().any(|model| model.sees()) {
            return;
        }
        for ContentPart::Image { mime_type, url } in content {
            let lies_here = [ASSETS, PICTURES]
                .iter()
                .any(|begins| url.starts_with(begins));
            if lies_here && self.pictures_due.len() < DUE_MAX {
                self.pictures_due.push(DuePicture {
                    id: response.id.clone(),
                    name: response.name.clone(),
                    mime_type: mime_type.clone(),
                    address: url.clone(),
                });
            }
        }
    }

    /// Reads the waiting pictures, unless the turn is cancelled or its time is up first; returns which it was. All pictures of a
    /// turn together take no more bytes than one picture of the user may.
    pub(super) async fn read_pictures(
        &mut self,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> Wake<()> {
        let bytes_max = self.settings.limits.log.image_bytes_max;
        for due in std::mem::take(&mut self.pictures_due) {
            let left = bytes_max.saturating_sub(self.flow.picture_bytes);
            let mut reading = self
                .capabilities
                .picture(&due.address, &self.reader(), left);
            let read = loop {
                match self.wait(reading.as_mut(), patience, sink).await {
                    Wake::Model(read) => break read,
                    Wake::Core => {}
                    Wake::Cancelled => return Wake::Cancelled,
                    Wake::Late => return Wake::Late,
                }
            };
            if let Some(data) = read {
                self.flow.picture_bytes += data.len();
                self.note(Entry::ResultImage {
                    id: due.id,
                    name: due.name,
                    image: Image {
                        mime_type: due.mime_type,
                        data: Sensitive(data),
                    },
                });
            }
        }
        Wake::Model(())
    }
}
