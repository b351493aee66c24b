//! Fetches a provider's documents, within a time and a size. Follows no redirection. Knows no key.

use bytes::Bytes;
use http::header::{ACCEPT, HeaderName, HeaderValue};
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;
use windlass_runtime::transport::http::{HttpClient, HttpLimits, HttpResponse};

/// The limits of one exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchLimits {
    pub(super) patience: Duration,
    pub(super) bytes_max: usize,
}

impl FetchLimits {
    /// Requests an address and returns its JSON. The error is for the operator.
    pub(super) async fn get(self, url: &str) -> Result<Value, String> {
        self.ask(url, Vec::new(), None).await
    }

    /// Sends a form and returns the answer.
    pub(super) async fn post(
        self,
        url: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        form: String,
    ) -> Result<Value, String> {
        self.ask(url, headers, Some(form.into())).await
    }

    async fn ask(
        self,
        url: &str,
        mut headers: Vec<(HeaderName, HeaderValue)>,
        body: Option<Bytes>,
    ) -> Result<Value, String> {
        headers.push((ACCEPT, HeaderValue::from_static("application/json")));
        let limits = HttpLimits {
            connect_timeout: self.patience,
            head_timeout: self.patience,
            idle_timeout: self.patience,
            kept_connections_max: 0,
            kept_for: Duration::ZERO,
        };
        let whole = async {
            let client =
                HttpClient::new(url, headers, limits).map_err(|error| error.to_string())?;
            let answer = match body {
                None => client.get("").await,
                Some(body) => client.post("", body).await,
            };
            self.read(answer.map_err(|error| error.to_string())?).await
        };
        // Pieces that come one by one would each be in time.
        match timeout(self.patience, whole).await {
            Ok(read) => read.map_err(|cause| format!("{url}: {cause}")),
            Err(_) => Err(format!(
                "{url}: no whole answer came within {} s",
                self.patience.as_secs()
            )),
        }
    }

    async fn read(self, answer: HttpResponse) -> Result<Value, String> {
        let status = answer.status;
        let body = answer.body.read_up_to(self.bytes_max + 1).await;
        if status != 200 {
            return Err(format!("it answers with status {status}"));
        }
        if body.len() > self.bytes_max {
            return Err(format!(
                "the answer is longer than {} bytes",
                self.bytes_max
            ));
        }
        serde_json::from_slice(&body).map_err(|_| "the answer is no JSON".to_owned())
    }
}
