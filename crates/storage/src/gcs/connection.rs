//! GET requests for one object, over one connection at a time.
//!
//! An answer is read to its end, so that the connection serves the next request; one that goes wrong is closed. The invariant: a connection belongs to
//! the process that made it. A child that was forked makes its own and takes no lock that a thread of the parent may have held.

use super::content_range::{Part, number, size_of_refused};
use super::site::Site;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use ureq::http::{HeaderMap, HeaderValue, header};
use ureq::{Agent, Body};

const ATTEMPTS: u32 = 3;
const CONNECT: Duration = Duration::from_secs(10);
/// Without a byte from the other side.
const SILENCE: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(60);
/// A connection slower than this is given up.
const MIN_BYTES_PER_SECOND: u64 = 16 << 10;
/// What explains a refusal is read up to here, to keep the connection.
const MAX_EXPLANATION: u64 = 64 << 10;

/// One version of an object. A store that numbers no versions leaves the size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) size: u64,
    pub(super) generation: Option<u64>,
}

impl Version {
    fn is_other_than(&self, answered: &Self) -> bool {
        let is_renumbered = matches!((self.generation, answered.generation), (Some(ours), Some(theirs)) if ours != theirs);
        self.size != answered.size || is_renumbered
    }
}

/// What a request is for.
#[derive(Debug, Clone)]
pub(super) enum Asked<'a> {
    /// That many bytes at the end of whatever version there is.
    Tail(u64),
    Span(Range<u64>, &'a Version),
}

#[derive(Debug)]
pub(super) enum Failure {
    Missing,
    Denied(u16),
    /// There is another version now.
    Changed,
    /// It would go the same way again.
    Final(io::Error),
    /// Another attempt may go well.
    Passing(io::Error),
}

pub(super) struct Connection {
    url: String,
    site: Site,
    line: Line,
}

/// The connection of one process, and behind it that of the child that was forked from it.
struct Line {
    process: u32,
    open: Mutex<Open>,
    of_child: OnceLock<Box<Self>>,
}

struct Open {
    agent: Agent,
    authorization: Option<HeaderValue>,
}

impl Connection {
    /// Connects to nothing yet.
    pub(super) fn new(url: String, site: &Site) -> io::Result<Self> {
        let open = Open { agent: agent(site), authorization: (site.authorization)()? };
        let line = Line { process: std::process::id(), open: Mutex::new(open), of_child: OnceLock::new() };
        Ok(Self { url, site: site.clone(), line })
    }

    /// The version that answered, and what `take` made of the answer: it is given the span and its bytes, for each attempt anew.
    pub(super) fn get<T>(&self, asked: &Asked<'_>, take: impl FnMut(&Range<u64>, &mut dyn Read) -> io::Result<T>) -> Result<(Version, T), Failure> {
        self.get_as(std::process::id(), asked, take)
    }

    pub(super) fn get_as<T>(
        &self,
        process: u32,
        asked: &Asked<'_>,
        mut take: impl FnMut(&Range<u64>, &mut dyn Read) -> io::Result<T>,
    ) -> Result<(Version, T), Failure> {
        let mut open = self.line_of(process)?;
        let mut attempt = 1;
        loop {
            let failure = match self.attempt(&open, asked, &mut take) {
                Ok(taken) => return Ok(taken),
                Err(failure) => failure,
            };
            match failure {
                Failure::Passing(_) if attempt < ATTEMPTS => std::thread::sleep(self.pause(attempt)),
                // Tokens live for an hour; whoever renews one puts it where the old one was.
                Failure::Denied(401) if attempt < ATTEMPTS => {
                    let renewed = (self.site.authorization)().map_err(Failure::Final)?;
                    if renewed == open.authorization {
                        return Err(failure);
                    }
                    open.authorization = renewed;
                }
                _ => return Err(failure),
            }
            attempt += 1;
        }
    }

    fn line_of(&self, process: u32) -> Result<MutexGuard<'_, Open>, Failure> {
        let mut line = &self.line;
        while line.process != process {
            line = match line.of_child.get() {
                Some(child) => child,
                None => {
                    let open = Open { agent: agent(&self.site), authorization: (self.site.authorization)().map_err(Failure::Final)? };
                    let child = Box::new(Line { process, open: Mutex::new(open), of_child: OnceLock::new() });
                    line.of_child.get_or_init(|| child)
                }
            };
        }
        Ok(line.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Processes that failed together do not come back together.
    fn pause(&self, attempt: u32) -> Duration {
        let longest = self.site.backoff.saturating_mul(4u32.saturating_pow(attempt - 1));
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        longest / 2 + longest / 2 * (nanos % 1024) / 1024
    }

    fn attempt<T>(
        &self,
        open: &Open,
        asked: &Asked<'_>,
        take: &mut impl FnMut(&Range<u64>, &mut dyn Read) -> io::Result<T>,
    ) -> Result<(Version, T), Failure> {
        let (range, len) = match asked {
            Asked::Tail(len) => (format!("bytes=-{len}"), *len),
            Asked::Span(span, _) => (format!("bytes={}-{}", span.start, span.end.saturating_sub(1)), span.end.saturating_sub(span.start)),
        };
        let mut request = open.agent.get(&self.url).header(header::RANGE, range);
        if let Some(authorization) = &open.authorization {
            request = request.header(header::AUTHORIZATION, authorization.clone());
        }
        let whole = SILENCE + Duration::from_secs(len / MIN_BYTES_PER_SECOND);
        let answer = request.config().timeout_recv_body(Some(whole)).build().call().map_err(|error| self.unanswered(error))?;
        let (head, mut body) = answer.into_parts();
        let status = head.status.as_u16();
        let part = match (status, asked) {
            (206, _) => text(&head.headers, "content-range").and_then(Part::parse),
            // The whole object may be sent where the tail would be all of it; without a length it may be one that was unpacked on the way.
            (200, Asked::Tail(_)) => text(&head.headers, "content-length").and_then(number).map(|size| Part { span: 0..size, size }),
            _ => return self.refused(status, asked, &head.headers, &mut body, take),
        };
        let generation = text(&head.headers, "x-goog-generation").and_then(number);
        let part = part.ok_or_else(|| self.wrong("an answer that does not say which bytes it holds"))?;
        let version = Version { size: part.size, generation };
        let expected = match asked {
            Asked::Tail(len) => part.size.saturating_sub(*len)..part.size,
            Asked::Span(_, known) if known.is_other_than(&version) => return Err(Failure::Changed),
            Asked::Span(span, _) => span.clone(),
        };
        if part.span != expected {
            return Err(self.wrong("other bytes than were asked for"));
        }
        self.taken(&part, &mut body, take).map(|taken| (version, taken)).map_err(|error| match error.kind() {
            io::ErrorKind::OutOfMemory => Failure::Final(error),
            _ => Failure::Passing(error),
        })
    }

    fn taken<T>(&self, part: &Part, body: &mut Body, take: &mut impl FnMut(&Range<u64>, &mut dyn Read) -> io::Result<T>) -> io::Result<T> {
        let mut reader = body.as_reader();
        let taken = take(&part.span, &mut reader.by_ref().take(part.len())).map_err(|error| self.told(&error))?;
        // This read finds the end, which gives the connection back.
        match reader.read(&mut [0]).map_err(|error| self.told(&error))? {
            0 => Ok(taken),
            _ => Err(self.told(&io::Error::new(io::ErrorKind::InvalidData, "more bytes came than were announced"))),
        }
    }

    fn refused<T>(
        &self,
        status: u16,
        asked: &Asked<'_>,
        headers: &HeaderMap,
        body: &mut Body,
        take: &mut impl FnMut(&Range<u64>, &mut dyn Read) -> io::Result<T>,
    ) -> Result<(Version, T), Failure> {
        if status != 200 {
            // When this fails, the connection is closed and the next request opens another.
            let _ = io::copy(&mut body.as_reader().take(MAX_EXPLANATION), &mut io::sink());
        }
        let size = text(headers, "content-range").and_then(size_of_refused);
        Err(match (status, asked) {
            // No range of an empty object holds a byte.
            (416, Asked::Tail(_)) if size == Some(0) => {
                let taken = take(&(0..0), &mut io::empty()).map_err(Failure::Final)?;
                return Ok((Version { size: 0, generation: text(headers, "x-goog-generation").and_then(number) }, taken));
            }
            (404, _) => Failure::Missing,
            (401 | 403, _) => Failure::Denied(status),
            (412 | 416, Asked::Span(..)) => Failure::Changed,
            (408 | 429 | 500..=599, _) => Failure::Passing(self.told(&io::Error::other(format!("HTTP status {status}")))),
            (200, _) => self.wrong("the whole object instead of a range, as for objects with `Content-Encoding: gzip`"),
            _ => Failure::Final(self.told(&io::Error::other(format!("HTTP status {status}")))),
        })
    }

    fn unanswered(&self, error: ureq::Error) -> Failure {
        let is_final =
            matches!(error, ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl | ureq::Error::RequireHttpsOnly(_));
        let told = self.told(&error.into_io());
        if is_final { Failure::Final(told) } else { Failure::Passing(told) }
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::Final(self.told(&io::Error::new(io::ErrorKind::InvalidData, format!("the server sent {what}"))))
    }

    fn told(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.site.base))
    }
}

fn agent(site: &Site) -> Agent {
    let config = Agent::config_builder()
        .https_only(site.is_encrypted())
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(1)
        .max_idle_connections_per_host(1)
        .max_idle_age(IDLE)
        .user_agent(concat!("shardmill/", env!("CARGO_PKG_VERSION")))
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(SILENCE))
        .timeout_per_read(Some(SILENCE))
        .timeout_per_write(Some(SILENCE));
    // An emulator is near, and its proxy would be asked in plain text.
    let config = if site.is_encrypted() { config } else { config.proxy(None) };
    config.build().new_agent()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
