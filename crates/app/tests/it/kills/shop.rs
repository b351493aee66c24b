//! A service outside that writes down every order, and answers or does not.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Patience {
    #[default]
    Answers,
    /// It takes the order and says nothing, until the other side has left.
    IsSilent,
}

#[derive(Default)]
struct Books {
    patience: Patience,
    /// The keys and the items of all orders, in their order; a receipt is a place in this list.
    orders: Vec<(String, String)>,
}

pub(super) struct Shop {
    pub(super) address: String,
    books: Arc<Mutex<Books>>,
}

/// Asks for an item under a key, and returns the receipt.
pub(super) fn order(address: &str, key: &str, item: &str) -> std::io::Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    let head = format!(
        "POST /orders/{item} HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: {key}\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let receipt = answer.split_once("\r\n\r\n").map(|(_, body)| body.parse());
    receipt.and_then(Result::ok).ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the answer is cut off")
    })
}

/// Asks what became of an order: its receipt, if there is one.
pub(super) fn find(address: &str, key: &str) -> std::io::Result<Option<u64>> {
    let mut stream = TcpStream::connect(address)?;
    let head = format!("GET /orders/ HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: {key}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((_, body)) => Ok(body.parse().ok()),
        None => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)),
    }
}

impl Shop {
    pub(super) fn open() -> Self {
        Self::open_to(false)
    }

    /// One that does not wait for a server that says nothing, before it hears the next.
    pub(super) fn open_to_many() -> Self {
        Self::open_to(true)
    }

    fn open_to(many: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let books = Arc::new(Mutex::new(Books::default()));
        let shared = books.clone();
        std::thread::spawn(move || {
            // Read one after the other, so that a question about an order counts all that were sent before.
            for mut stream in listener.incoming().flatten() {
                if many {
                    let shared = shared.clone();
                    std::thread::spawn(move || {
                        if let Some(answer) = take(&mut stream, &shared) {
                            answer.send(stream);
                        }
                    });
                } else if let Some(answer) = take(&mut stream, &shared) {
                    std::thread::spawn(move || answer.send(stream));
                }
            }
        });
        Self { address, books }
    }

    pub(super) fn be(&self, patience: Patience) {
        self.books.lock().unwrap().patience = patience;
    }

    /// Waits until an item was ordered.
    pub(super) async fn until_asked(&self, item: &str) {
        let asked = async {
            while self.orders(item) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let asked = tokio::time::timeout(Duration::from_secs(60), asked).await;
        asked.expect("nothing was ordered");
    }

    pub(super) fn orders(&self, item: &str) -> usize {
        let books = self.books.lock().unwrap();
        books.orders.iter().filter(|(_, own)| own == item).count()
    }

    /// The receipt of an item, which is its place in the books.
    pub(super) fn receipt(&self, item: &str) -> Option<usize> {
        let books = self.books.lock().unwrap();
        books.orders.iter().position(|(_, own)| own == item)
    }

    /// The item of every order.
    pub(super) fn items(&self) -> Vec<String> {
        let books = self.books.lock().unwrap();
        books.orders.iter().map(|(_, item)| item.clone()).collect()
    }

    /// The key of every order.
    pub(super) fn keys(&self) -> Vec<String> {
        let books = self.books.lock().unwrap();
        books.orders.iter().map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn keys_asked_twice(&self) -> Vec<String> {
        let books = self.books.lock().unwrap();
        let mut keys = BTreeMap::<&String, u32>::new();
        for (key, _) in &books.orders {
            *keys.entry(key).or_default() += 1;
        }
        let twice = keys.into_iter().filter(|(_, times)| *times > 1);
        twice.map(|(key, _)| key.clone()).collect()
    }
}

/// What is answered, and how.
struct Reply {
    text: String,
    patience: Patience,
}

/// Reads a request and writes an order down. Nothing where the other side was killed before it had asked.
fn take(stream: &mut TcpStream, books: &Mutex<Books>) -> Option<Reply> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            Ok(_) | Err(_) => return None,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    // Clients write names of headers as they like.
    let key = lines.find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("Idempotency-Key")
            .then_some(value)
    })?;
    let mut books = books.lock().unwrap();
    let of_key = |(known, _): &(String, String)| known == key;
    if head.starts_with("GET") {
        let receipt = books.orders.iter().position(of_key);
        let text = receipt.map_or("none".to_owned(), |receipt| receipt.to_string());
        return Some(Reply {
            text,
            patience: Patience::Answers,
        });
    }
    let item = head.split(['/', ' ']).nth(3)?.to_owned();
    books.orders.push((key.to_owned(), item));
    Some(Reply {
        text: (books.orders.len() - 1).to_string(),
        patience: books.patience,
    })
}

impl Reply {
    fn send(self, mut stream: TcpStream) {
        match self.patience {
            Patience::Answers => {
                let length = self.text.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                // In pieces, so that a kill may fall between them. A client that is gone hears nothing.
                for piece in [head.as_str(), self.text.as_str()] {
                    if stream.write_all(piece.as_bytes()).is_err() {
                        return;
                    }
                }
            }
            Patience::IsSilent => {
                let _ = stream.read(&mut [0]);
            }
        }
    }
}
