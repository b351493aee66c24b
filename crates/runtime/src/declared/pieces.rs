//! Answers of services that come in pieces, over the way out of a declared handler: each piece is shown as it comes, and the last one is
//! the answer. How pieces are told apart is `tool`'s.

use std::sync::{Arc, Mutex, PoisonError};
use windlass_tool::handler::{AnswerWatcher, Context, FetchError, Http, HttpAnswer, HttpRequest};
use windlass_tool::handler_file::PieceReader;

/// Shows the pieces of one answer.
struct Pieces {
    context: Context,
    /// Of an answer that says that it worked and comes in pieces.
    reader: Mutex<Option<PieceReader>>,
}

impl AnswerWatcher for Pieces {
    fn began(&self, status: u16, content_type: Option<&str>) {
        let reader = PieceReader::of(content_type).filter(|_| (200..=299).contains(&status));
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = reader;
    }

    fn came(&self, bytes: &[u8]) {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reader) = reader.as_mut() {
            reader.read(bytes, &mut |piece| show(&self.context, piece));
        }
    }
}

fn show(context: &Context, piece: serde_json::Value) {
    // The answer is whole without it.
    let _ = context.output(piece);
}

/// One request on behalf of a call. Of an answer in pieces, those before the last are shown, and the last is its body.
pub(super) async fn fetch_in_pieces(
    way: &dyn Http,
    request: HttpRequest,
    context: &Context,
) -> Result<HttpAnswer, FetchError> {
    let pieces = Arc::new(Pieces {
        context: context.clone(),
        reader: Mutex::new(None),
    });
    let mut answer = way.fetch_watched(request, pieces.clone()).await?;
    let reader = pieces
        .reader
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let (Some(reader), Ok(body)) = (reader, &mut answer.body) {
        *body = reader.answer(&mut |piece| show(context, piece));
    }
    Ok(answer)
}
