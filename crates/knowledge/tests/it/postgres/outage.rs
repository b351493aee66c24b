//! A database that is not there, goes away and comes back: no answer is ever wrong, and nobody has to start anything again.

use super::server::{self, Published, connect, settings, wait, write};
use crate::support::{index_records, record, request};
use std::io;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use windlass_contract::handler::{GetRequest, Knowledge, KnowledgeError};
use windlass_contract::id::UserId;
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::Options;
use windlass_knowledge::postgres::{PostgresBase, PostgresError, PostgresSettings};

/// What lies between a base and its server, and can be shut.
pub(super) struct Way {
    address: String,
    pub(super) port: u16,
    is_open: Arc<watch::Sender<bool>>,
}

impl Way {
    pub(super) fn to_server() -> Self {
        wait(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let is_open = Arc::new(watch::Sender::new(true));
            let opening = is_open.clone();
            tokio::spawn(async move {
                loop {
                    let (near, _) = listener.accept().await.unwrap();
                    if *opening.borrow() {
                        tokio::spawn(carry(opening.subscribe(), near));
                    }
                }
            });
            Self {
                address: format!("postgres://windlass@127.0.0.1:{port}/postgres?sslmode=disable"),
                port,
                is_open,
            }
        })
    }

    fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// Nothing gets through any more once this has returned, and nothing that was under way is.
    fn shut(&self) {
        self.is_open.send_replace(false);
        wait(self.is_open.closed());
    }
}

/// Dropping the last one says that the sockets are closed.
async fn carry(mut is_open: watch::Receiver<bool>, mut near: TcpStream) -> io::Result<()> {
    // Also a way that is shut and opened at once ends what was under way.
    let shut = is_open.changed();
    let mut far = connect().await?;
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _ = shut => {}
    }
    Ok(())
}

fn get(id: &str) -> GetRequest {
    GetRequest {
        id: id.to_owned(),
        namespace: None,
        reader: UserId::new("user").into(),
    }
}

#[test]
fn a_database_that_goes_away_is_said_and_used_again_when_it_is_back() {
    if !server::is_there() {
        return;
    }
    let records = vec![record("doc:a", "Fram", "A ship of oak.")];
    let published = Published::of(
        &index_records(records, &Options::default()),
        &Options::default(),
    );
    let way = Way::to_server();
    let through = PostgresSettings {
        address: Sensitive(way.address.clone()),
        ..published.settings.clone()
    };
    let base = wait(PostgresBase::open(&through, &Options::default())).unwrap();
    for round in 0..2 {
        let found = wait(base.search(request("oak"))).unwrap();
        assert_eq!(found.hits.len(), 1, "{round}");
        assert!(wait(base.get(get("doc:a"))).unwrap().is_ok());
        way.shut();
        // Neither is the record said not to be there, nor are its hits none.
        let down = wait(base.search(request("oak"))).unwrap_err();
        assert!(matches!(down, KnowledgeError::Unavailable(_)), "{down}");
        let down = wait(base.get(get("doc:a"))).unwrap_err();
        assert!(matches!(down, KnowledgeError::Unavailable(_)), "{down}");
        assert!(wait(base.refresh()).is_err());
        way.open();
    }
    assert!(wait(base.get(get("doc:a"))).unwrap().is_ok());
    drop(base);
}

/// A server that was started anew has closed what its clients kept, and they do not know.
#[test]
fn a_connection_that_was_lost_while_nobody_looked_costs_no_answer() {
    if !server::is_there() {
        return;
    }
    let records = vec![record("doc:a", "Fram", "A ship of oak.")];
    let published = Published::of(
        &index_records(records, &Options::default()),
        &Options::default(),
    );
    let way = Way::to_server();
    let through = PostgresSettings {
        address: Sensitive(way.address.clone()),
        ..published.settings.clone()
    };
    let base = wait(PostgresBase::open(&through, &Options::default())).unwrap();
    for _ in 0..3 {
        assert_eq!(wait(base.search(request("oak"))).unwrap().hits.len(), 1);
        way.shut();
        way.open();
    }
    drop(base);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let nobody = settings("postgres://windlass@127.0.0.1:1/postgres".to_owned());
    let error = wait(PostgresBase::open(&nobody, &Options::default()))
        .err()
        .unwrap();
    assert!(matches!(error, PostgresError::Unreachable(_)), "{error}");
    let base = index_records(Vec::new(), &Options::default());
    let error = write(&nobody, &base).unwrap_err();
    assert!(matches!(error, PostgresError::Unreachable(_)), "{error}");
}
