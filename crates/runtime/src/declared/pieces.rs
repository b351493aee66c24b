//! Answers of services that come in pieces, over the way out of a declared handler: each piece is shown as it comes, and the last
//! one is the answer. An unfinished stream of pieces is no answer. The separation of pieces is `tool`'s.

use std::sync::{Arc, Mutex, PoisonError};
use windlass_compile::handler_file::PieceReader;
use windlass_contract::handler::{
    AnswerWatcher, Context, FetchError, Http, HttpAnswer, HttpRequest,
};

/// Shows the pieces of one answer.
struct Pieces {
    context: Context,
    /// The reader of a successful answer in pieces.
    reader: Mutex<Option<PieceReader>>,
}

impl AnswerWatcher for Pieces {
    fn began(&self, status: u16, content_type: Option<&str>) {
        // An answer without a body has no pieces.
        let has_pieces = matches!(status, 200..=203 | 206..=299);
        let reader = PieceReader::of(content_type).filter(|_| has_pieces);
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
    // The answer is complete without the shown piece.
    let _ = context.output(piece);
}

/// One request on behalf of a call. The pieces of an answer before the last are shown, and the last is its body. The status was
/// sent before the work was done, so that an answer without a last piece leaves the outcome unknown.
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
    let Some(reader) = reader else {
        return Ok(answer);
    };
    let broken_off =
        |problem: &str| FetchError::Unanswered(format!("of an answer in pieces, {problem}"));
    if let Err(incomplete) = &answer.body {
        return Err(broken_off(&incomplete.problem));
    }
    let last = reader.answer(&mut |piece| show(context, piece));
    answer.body = Ok(last.ok_or_else(|| broken_off("the last one did not come"))?);
    Ok(answer)
}
