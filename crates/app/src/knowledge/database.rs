//! The knowledge base in PostgreSQL as the program runs it: opened as the configuration says, and asked now and then for new records. A
//! program that was built without PostgreSQL refuses it.

#[cfg(feature = "postgres")]
pub(crate) use with_postgres::{Polling, open, publish};
#[cfg(not(feature = "postgres"))]
pub(crate) use without_postgres::{open, publish};

#[cfg(feature = "postgres")]
mod with_postgres {
    use crate::failure::Failure;
    use crate::knowledge::KnowledgeChanges;
    use crate::knowledge::{LiveKnowledge, Maker, Refresher};
    use std::time::{Duration, Instant};
    use tokio::task::JoinHandle;
    use windlass_contract::sensitive::Sensitive;
    use windlass_knowledge::postgres::{PostgresBase, PostgresError, PostgresSettings};
    use windlass_knowledge::{KnowledgeBase, Observer, Progress};

    /// How often the database is asked for changes: a change shows within a second.
    const BETWEEN: Duration = Duration::from_millis(500);

    /// Asks until it is dropped.
    pub(crate) struct Polling(JoinHandle<()>);

    impl Drop for Polling {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    fn settings(address: Sensitive<String>, maker: &Maker) -> PostgresSettings {
        PostgresSettings {
            exact_max: maker.postgres_exact_max,
            root_certificate: maker.postgres_root_certificate.clone(),
            ..PostgresSettings::new(address)
        }
    }

    /// The base, and the task that keeps it current.
    pub(crate) async fn open(
        address: Sensitive<String>,
        maker: &Maker,
        changes: KnowledgeChanges,
    ) -> Result<(LiveKnowledge, Refresher), Failure> {
        let settings = settings(address, maker);
        let base = PostgresBase::open(&settings, &maker.options().await)
            .await
            .map_err(Failure::of)?;
        let stats = base.stats().await.map_err(Failure::of)?;
        tracing::info!(
            records = stats.records,
            retrieval = stats.retrieval,
            model = stats.model,
            "knowledge base in PostgreSQL"
        );
        let _polling = Polling(tokio::spawn(keep_current(base.clone(), changes)));
        Ok((
            LiveKnowledge::Postgres(base),
            Refresher::Database { _polling },
        ))
    }

    async fn keep_current(base: PostgresBase, changes: KnowledgeChanges) {
        let mut is_down = false;
        loop {
            tokio::time::sleep(BETWEEN).await;
            match base.refresh().await {
                Ok(is_new) => {
                    if is_down {
                        tracing::info!("the knowledge base answers again");
                    }
                    if is_new {
                        tracing::info!("what was written into the knowledge base is taken up");
                        changes.tell();
                    }
                    is_down = false;
                }
                Err(error) => {
                    if !is_down {
                        tracing::error!(%error, "the knowledge base does not answer");
                    }
                    is_down = true;
                }
            }
        }
    }

    /// Copies a base in memory into the database. Returns the outcome as JSON and in words.
    pub(crate) async fn publish(
        address: Sensitive<String>,
        maker: &Maker,
        base: &KnowledgeBase,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(serde_json::Value, String), Failure> {
        let begun = Instant::now();
        let clock_ms = || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut observer = Observer {
            clock_ms: &clock_ms,
            progress,
        };
        let settings = settings(address, maker);
        let published = windlass_knowledge::postgres::publish(&settings, base, &mut observer)
            .await
            .map_err(|error: PostgresError| Failure::of(error))?;
        let words = format!(
            "in PostgreSQL: {} records, {} written, {} unchanged, {} removed; {} vectors{}; {} records read back and equal",
            published.records,
            published.written,
            published.unchanged,
            published.removed,
            published.vectors,
            match published.indexed {
                true => " with an approximate index",
                false => "",
            },
            published.verified
        );
        let json = serde_json::to_value(published).map_err(Failure::of)?;
        Ok((json, words))
    }
}

#[cfg(not(feature = "postgres"))]
mod without_postgres {
    use crate::failure::Failure;
    use crate::knowledge::KnowledgeChanges;
    use crate::knowledge::{LiveKnowledge, Maker, Refresher};
    use windlass_contract::sensitive::Sensitive;
    use windlass_knowledge::{KnowledgeBase, Progress};

    fn refuse() -> Failure {
        Failure::Failed(
            "this program was built without PostgreSQL: build it with `--features postgres`, or leave knowledge.postgres out"
                .to_owned(),
        )
    }

    pub(crate) async fn open(
        _address: Sensitive<String>,
        _maker: &Maker,
        _changes: KnowledgeChanges,
    ) -> Result<(LiveKnowledge, Refresher), Failure> {
        Err(refuse())
    }

    pub(crate) async fn publish(
        _address: Sensitive<String>,
        _maker: &Maker,
        _base: &KnowledgeBase,
        _progress: &mut dyn FnMut(Progress),
    ) -> Result<(serde_json::Value, String), Failure> {
        Err(refuse())
    }
}
