//! A server's store as others see it: a file that they read, and may hold so that the server cannot write. Knows no rule that is
//! tested.

use rusqlite::Connection;
use std::path::Path;
use windlass_store::DATABASE_FILE;

/// The store of a data folder, beside the server that owns it.
pub(crate) fn database(data: &Path) -> Connection {
    let connection = Connection::open(data.join(DATABASE_FILE)).unwrap();
    connection
        .busy_timeout(std::time::Duration::from_secs(60))
        .unwrap();
    connection
}

/// Nobody else writes for as long as this is held.
pub(crate) struct HeldStore(Connection);

impl HeldStore {
    /// Takes the store of a data folder as another program does: by a transaction that takes its time.
    pub(crate) fn take(data: &Path) -> Self {
        let connection = database(data);
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }

    pub(crate) fn let_go(self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}
