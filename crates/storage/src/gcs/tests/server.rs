//! An object store of one object, which counts what it is asked and goes wrong on demand.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// One answer that is not the right one.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    Status(u16),
    /// The right head and that many bytes less, then the connection ends.
    Short(usize),
    /// The right bytes under this `Content-Range`.
    ContentRange(String),
    /// The connection ends without a word.
    HangUp,
    /// The range is not looked at.
    Whole,
    /// The same, without saying how much comes.
    WholeWithoutLength,
    Redirect,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) object: Vec<u8>,
    pub(super) generation: Option<u64>,
    /// Answers of the next requests; then all is well.
    pub(super) faults: VecDeque<Fault>,
    /// Let in without it when empty.
    pub(super) token: String,
    pub(super) ranges: Vec<String>,
    pub(super) targets: Vec<String>,
    pub(super) authorizations: Vec<Option<String>>,
    pub(super) connections: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) base: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(super) fn start(object: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { base: format!("http://{}", listener.local_addr().unwrap()), state: Arc::default() };
        server.state().object = object;
        let accepting = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                accepting.state().connections += 1;
                let serving = accepting.clone();
                thread::spawn(move || serving.serve(stream.unwrap()));
            }
        });
        server
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What was asked since the last call.
    pub(super) fn take_ranges(&self) -> Vec<String> {
        std::mem::take(&mut self.state().ranges)
    }

    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut requests = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if requests.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                if line.trim().is_empty() {
                    break;
                }
                lines.push(line.trim().to_owned());
            }
            let answer = self.answer(&lines);
            stream.write_all(&answer.bytes).ok()?;
            if answer.is_last {
                return None;
            }
        }
    }

    fn answer(&self, lines: &[String]) -> Answer {
        let header = |name: &str| {
            let found = lines.iter().filter_map(|line| line.split_once(": ")).find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_owned())
        };
        let mut state = self.state();
        let range = header("range").unwrap();
        let authorization = header("authorization");
        state.targets.push(lines[0].clone());
        state.ranges.push(range.clone());
        state.authorizations.push(authorization.clone());
        let fault = state.faults.pop_front();
        let is_let_in = state.token.is_empty() || authorization == Some(format!("Bearer {}", state.token));
        let size = state.object.len();
        let (start, end) = match range.strip_prefix("bytes=").unwrap().split_once('-').unwrap() {
            ("", last) => (size.saturating_sub(last.parse().unwrap()), size),
            (first, last) => (first.parse().unwrap(), size.min(last.parse::<usize>().unwrap() + 1)),
        };
        let generation = state.generation.map_or(String::new(), |generation| format!("X-Goog-Generation: {generation}\r\n"));
        let refusal = |status: u16, more: &str| {
            let body = "{\"error\": \"as the test wants it\"}";
            let head = format!("HTTP/1.1 {status} No\r\n{more}Content-Length: {}\r\n\r\n", body.len());
            Answer { bytes: [head.as_bytes(), body.as_bytes()].concat(), is_last: false }
        };
        if !is_let_in {
            return refusal(401, "");
        }
        let mut content_range = format!("bytes {start}-{}/{size}", end.max(1) - 1);
        let mut missing = 0;
        match fault {
            None => {}
            Some(Fault::HangUp) => return Answer { bytes: Vec::new(), is_last: true },
            Some(Fault::Status(status)) => return refusal(status, ""),
            Some(Fault::Redirect) => return refusal(307, "Location: http://127.0.0.1:1/elsewhere\r\n"),
            Some(Fault::Short(bytes)) => missing = bytes,
            Some(Fault::ContentRange(header)) => content_range = header,
            Some(Fault::Whole) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n");
                return Answer { bytes: [head.as_bytes(), &state.object].concat(), is_last: false };
            }
            Some(Fault::WholeWithoutLength) => {
                return Answer { bytes: [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", state.object.as_slice()].concat(), is_last: true };
            }
        }
        if start >= size {
            return refusal(416, &format!("Content-Range: bytes */{size}\r\n"));
        }
        let body = &state.object[start..end];
        let head = format!("HTTP/1.1 206 Partial\r\n{generation}Content-Range: {content_range}\r\nContent-Length: {}\r\n\r\n", body.len());
        Answer { bytes: [head.as_bytes(), &body[..body.len() - missing]].concat(), is_last: missing > 0 }
    }
}

struct Answer {
    bytes: Vec<u8>,
    is_last: bool,
}
