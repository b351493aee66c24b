//! An HTTP server on loopback whose service is a function, and which breaks answers as it is told.

use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(known, _)| known == name)?;
        Some(&found.1)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The fields of a form.
    pub(crate) fn form(&self) -> Vec<(String, String)> {
        pairs(&String::from_utf8_lossy(&self.body))
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.to_string(),
        }
    }
}

/// What goes wrong with one request.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Whether the service does what it is asked before.
    pub(crate) is_carried_out: bool,
    pub(crate) end: End,
}

#[derive(Clone, Debug)]
pub(crate) enum End {
    Status(u16, &'static str, &'static [(&'static str, &'static str)]),
    /// The connection ends before the answer.
    Lost,
    /// The answer ends in its middle.
    Cut,
    /// No answer comes until the client goes away.
    Silent,
    Garbage,
}

/// A service: what it is asked by name, and how it answers.
pub(crate) trait Service: Send + Sync + 'static {
    fn name(&self, asked: &Asked) -> &'static str;
    fn answer(&self, asked: &Asked) -> Answer;
}

pub(crate) struct Server<S> {
    pub(crate) service: Arc<S>,
    pub(crate) url: String,
    faults: Arc<Mutex<VecDeque<(&'static str, Fault)>>>,
    asked: Arc<Mutex<Vec<(&'static str, Asked)>>>,
}

impl<S: Service> Server<S> {
    pub(crate) fn start(service: S) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            service: Arc::new(service),
            url: format!("http://{}", listener.local_addr().unwrap()),
            faults: Arc::default(),
            asked: Arc::default(),
        };
        let (service, faults, asked) = (
            server.service.clone(),
            server.faults.clone(),
            server.asked.clone(),
        );
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (service, faults, asked) = (service.clone(), faults.clone(), asked.clone());
                thread::spawn(move || serve(&stream.unwrap(), &*service, &faults, &asked));
            }
        });
        server
    }

    /// The next request of that name goes wrong; one after the other where there are several.
    pub(crate) fn breaks(&self, name: &'static str, fault: Fault) {
        self.faults.lock().unwrap().push_back((name, fault));
    }

    pub(crate) fn has_faults(&self) -> bool {
        !self.faults.lock().unwrap().is_empty()
    }

    pub(crate) fn asked(&self, name: &str) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        let asked = asked.iter().filter(|(known, _)| *known == name);
        asked.map(|(_, asked)| asked.clone()).collect()
    }
}

fn serve<S: Service>(
    mut stream: &TcpStream,
    service: &S,
    faults: &Mutex<VecDeque<(&'static str, Fault)>>,
    log: &Mutex<Vec<(&'static str, Asked)>>,
) {
    let Some(asked) = read(stream) else {
        return;
    };
    let name = service.name(&asked);
    log.lock().unwrap().push((name, asked.clone()));
    let fault = {
        let mut faults = faults.lock().unwrap();
        let place = faults.iter().position(|(known, _)| *known == name);
        place.and_then(|place| faults.remove(place))
    };
    let Some((_, fault)) = fault else {
        let answer = service.answer(&asked);
        let _ = write(stream, &answer, answer.body.len());
        return;
    };
    let mut answer = match fault.is_carried_out {
        true => service.answer(&asked),
        false => Answer::json(200, &Value::Null),
    };
    let _ = match fault.end {
        End::Status(status, body, headers) => {
            let answer = Answer {
                status,
                headers: headers
                    .iter()
                    .map(|(name, value)| (*name, (*value).to_owned()))
                    .collect(),
                body: body.to_owned(),
            };
            write(stream, &answer, answer.body.len())
        }
        End::Lost => Ok(()),
        End::Cut => {
            answer.status = 200;
            let whole = answer.body.len() + 10;
            answer.body.truncate(answer.body.len() / 2);
            write(stream, &answer, whole)
        }
        End::Silent => stream.read(&mut [0]).map(|_| ()),
        End::Garbage => {
            answer.status = 200;
            answer.body = "<html>busy</html>".into();
            write(stream, &answer, answer.body.len())
        }
    };
}

fn write(mut stream: &TcpStream, answer: &Answer, length: usize) -> std::io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {} Told\r\nConnection: close\r\nContent-Length: {length}\r\n",
        answer.status
    );
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n{}", answer.body).as_bytes())
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut asked = Asked {
        method,
        path: unescaped(path),
        query: pairs(query),
        headers,
        body: Vec::new(),
    };
    let length = asked.header("Content-Length")?.parse().ok()?;
    asked.body = vec![0; length];
    reader.read_exact(&mut asked.body).ok()?;
    Some(asked)
}

fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (unescaped(name), unescaped(value)));
    pairs.collect()
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}
