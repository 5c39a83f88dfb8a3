//! The way out of a sandbox: listeners that belong to its network, and connections that are made in ours.
#![cfg_attr(windows, expect(dead_code, reason = "there is no sandbox on Windows to lead out of"))]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::redact::{Redactor, Secrets};
use crate::sandbox::{Exits, Refused, Sandbox, SandboxKind};

/// Where the proxy listens in a network that is the sandbox's own, and what is passed on does not.
pub(crate) fn inside(exits: &Exits) -> SocketAddr {
    let taken = |port: &u16| exits.forwards.iter().any(|forward| forward.port() == *port);
    let port = (FIRST_PORT..u16::MAX).find(|port| !taken(port)).unwrap_or(FIRST_PORT);
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)
}

const FIRST_PORT: u16 = 61_080;

/// How long the beginning of a request may take, and a connection to come about.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest beginning of a request.
const HEAD: usize = 32 << 10;
/// How many connections at once.
const CONNECTIONS: usize = 512;
/// How many refused targets are told apart, and how long their names may be.
const TARGETS: usize = 100;
const NAME: usize = 300;

/// A way out that is not open yet: where its proxy will listen is known.
#[derive(Debug)]
pub(crate) struct Outside {
    /// The proxy, where the sandbox has no network of its own to listen in.
    listener: Option<std::net::TcpListener>,
    port: u16,
}

impl Outside {
    pub(crate) fn prepare(sandbox: &Sandbox) -> io::Result<Self> {
        let listener = match sandbox.kind {
            SandboxKind::Bubblewrap => None,
            _ => Some(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?),
        };
        let port = match &listener {
            Some(listener) => listener.local_addr()?.port(),
            None => inside(&sandbox.exits).port(),
        };
        Ok(Self { listener, port })
    }

    /// The port that the child has to be let through to.
    pub(crate) fn port(&self) -> Option<u16> {
        self.listener.as_ref().map(|_| self.port)
    }

    /// Tells the child of the proxy, and that its own machine needs none.
    pub(crate) fn proxy(&self, env: &mut BTreeMap<OsString, OsString>) {
        let url = format!("http://127.0.0.1:{}", self.port);
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            env.insert(name.into(), url.clone().into());
        }
        for name in ["NO_PROXY", "no_proxy"] {
            env.entry(name.into()).or_insert_with(|| "127.0.0.1,localhost,::1".into());
        }
    }

    /// Opens it. The socket is for the inside, which sends listeners of its own network.
    #[cfg(unix)]
    pub(crate) fn open(
        self,
        exits: Exits,
        secrets: Option<Secrets>,
    ) -> io::Result<(Gate, Option<std::os::unix::net::UnixStream>)> {
        if let Some(listener) = self.listener {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            // What is passed on is reached as it is.
            let proxy_only = Exits { forwards: Vec::new(), ..exits };
            return Ok((Gate::open(proxy_only, secrets, async { Ok(vec![listener]) }), None));
        }
        #[cfg(not(target_os = "linux"))]
        return Err(io::ErrorKind::Unsupported.into());
        #[cfg(target_os = "linux")]
        Self::from_inside(exits, secrets)
    }

    #[cfg(target_os = "linux")]
    fn from_inside(
        exits: Exits,
        secrets: Option<Secrets>,
    ) -> io::Result<(Gate, Option<std::os::unix::net::UnixStream>)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = tokio::net::UnixStream::from_std(ours)?;
        let listeners = async move {
            let received =
                ours.async_io(tokio::io::Interest::READABLE, || crate::shim::receive(ours.as_fd())).await?;
            received
                .into_iter()
                .map(|listener| {
                    listener.set_nonblocking(true)?;
                    TcpListener::from_std(listener)
                })
                .collect()
        };
        Ok((Gate::open(exits, secrets, listeners), Some(theirs)))
    }
}

/// An open way out; it closes when this is dropped.
#[derive(Debug)]
pub(crate) struct Gate {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    exits: Exits,
    secrets: Option<Secrets>,
    refused: Mutex<BTreeMap<String, u64>>,
    connections: Arc<Semaphore>,
}

impl Gate {
    /// Serves listeners as they come: one for each address that is passed on, and the proxy's.
    pub(crate) fn open<F>(exits: Exits, secrets: Option<Secrets>, listeners: F) -> Self
    where
        F: Future<Output = io::Result<Vec<TcpListener>>> + Send + 'static,
    {
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        let shared = Arc::new(Shared { exits, secrets, refused: Mutex::default(), connections });
        let served = shared.clone();
        let task = tokio::spawn(async move {
            // Without listeners every connection fails, as it should.
            let Ok(listeners) = listeners.await else { return };
            let mut tasks = tokio::task::JoinSet::new();
            let targets = served.exits.forwards.clone().into_iter().map(Some).chain([None]);
            for (listener, target) in listeners.into_iter().zip(targets) {
                tasks.spawn(served.clone().serve(listener, target));
            }
            tasks.join_all().await;
        });
        Self { shared, task: task.abort_handle() }
    }

    /// What was refused, most often first.
    pub(crate) fn refused(&self) -> Vec<Refused> {
        let refused = self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Refused> =
            refused.iter().map(|(target, times)| Refused { target: target.clone(), times: *times }).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.times));
        all
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// Passes on to an address or, without one, is the proxy.
    async fn serve(self: Arc<Self>, listener: TcpListener, target: Option<SocketAddr>) {
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            while tasks.try_join_next().is_some() {}
            let Ok(permit) = self.connections.clone().acquire_owned().await else { return };
            let shared = self.clone();
            tasks.spawn(async move {
                let _permit = permit;
                let _ = match target {
                    Some(target) => forward(stream, target).await,
                    None => shared.proxy(stream).await,
                };
            });
        }
    }

    async fn proxy(&self, mut inside: TcpStream) -> io::Result<()> {
        let Some((head, rest)) = timeout(PATIENCE, read_head(&mut inside)).await?? else {
            return answer(&mut inside, "400 Bad Request", "not a request to a proxy").await;
        };
        let Some(request) = Request::parse(&head) else {
            return answer(&mut inside, "400 Bad Request", "not a request to a proxy").await;
        };
        if !self.exits.allows(&request.host, request.port) {
            self.refuse(&request.host, request.port);
            let why = format!("the sandbox allows no connection to {}:{}", request.host, request.port);
            return answer(&mut inside, "403 Forbidden", &why).await;
        }
        let connect = TcpStream::connect((request.host.as_str(), request.port));
        let mut outside = match timeout(PATIENCE, connect).await {
            Ok(Ok(outside)) => outside,
            Ok(Err(error)) => return answer(&mut inside, "502 Bad Gateway", &error.to_string()).await,
            Err(_) => return answer(&mut inside, "504 Gateway Timeout", "no connection in time").await,
        };
        match request.plain {
            Some(head) => outside.write_all(&head).await?,
            None => inside.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
        }
        outside.write_all(&rest).await?;
        copy_bidirectional(&mut inside, &mut outside).await.map(drop)
    }

    fn refuse(&self, host: &str, port: u16) {
        let host: String = host.chars().filter(|letter| !letter.is_control()).collect();
        // A name can carry a secret out; into our records it does not.
        let mut shown = Vec::new();
        let mut redactor = Redactor::new(self.secrets.clone());
        redactor.push(format!("{host}:{port}").as_bytes(), &mut |bytes| shown.extend_from_slice(bytes));
        redactor.finish(&mut |bytes| shown.extend_from_slice(bytes));
        let shown: String = String::from_utf8_lossy(&shown).chars().take(NAME).collect();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let known = refused.contains_key(&shown) || refused.len() < TARGETS;
        let target = if known { shown } else { "others".to_owned() };
        *refused.entry(target).or_default() += 1;
    }
}

async fn forward(mut inside: TcpStream, target: SocketAddr) -> io::Result<()> {
    let mut outside = timeout(PATIENCE, TcpStream::connect(target)).await??;
    copy_bidirectional(&mut inside, &mut outside).await.map(drop)
}

/// The head of a request with its empty line, and what came after it; `None` if there is none.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = memchr::memmem::find(&read, b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            return Ok(Some((read, rest)));
        }
        if read.len() > HEAD || stream.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    }
}

async fn answer(stream: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let length = why.len() + 1;
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{why}\n"
    );
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// What a proxy is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    host: String,
    port: u16,
    /// The head as the host itself expects it; `None` for a tunnel.
    plain: Option<Vec<u8>>,
}

impl Request {
    fn parse(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let (line, headers) = text.split_once("\r\n")?;
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if method == "CONNECT" {
            let (host, port) = authority(target, None)?;
            return Some(Self { host, port, plain: None });
        }
        let rest = target.strip_prefix("http://")?;
        let (authority_part, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = authority(authority_part, Some(80))?;
        let path = if path.is_empty() { "/" } else { path };
        // One request, one connection: the next may be meant for another host.
        let mut plain = format!("{method} {path} {version}\r\n");
        for header in headers.split("\r\n").filter(|header| !header.is_empty()) {
            let name = header.split(':').next().unwrap_or_default();
            let ours = ["connection", "proxy-connection", "proxy-authorization", "keep-alive"];
            if !ours.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
                plain.push_str(header);
                plain.push_str("\r\n");
            }
        }
        plain.push_str("connection: close\r\n\r\n");
        Some(Self { host, port, plain: Some(plain.into_bytes()) })
    }
}

fn authority(text: &str, default: Option<u16>) -> Option<(String, u16)> {
    let text = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (text, default?),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_s_port_is_nobody_else_s() {
        let exits = Exits::new().forward("127.0.0.1:61080".parse().unwrap());
        assert_eq!(inside(&exits).port(), 61_081);
        assert_eq!(inside(&Exits::new()).port(), 61_080);
    }

    #[test]
    fn what_a_proxy_is_asked_for_is_understood() {
        let ask = |head: &str| Request::parse(head.as_bytes());
        let tunnel = |host: &str, port| Some(Request { host: host.into(), port, plain: None });
        assert_eq!(ask("CONNECT a.b:443 HTTP/1.1\r\nHost: x\r\n\r\n"), tunnel("a.b", 443));
        assert_eq!(ask("CONNECT [::1]:22 HTTP/1.1\r\n\r\n"), tunnel("::1", 22));
        for bad in [
            "CONNECT a.b HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://a/ HTTP/1.1\r\n\r\n",
            "x\r\n\r\n",
        ] {
            assert_eq!(ask(bad), None, "{bad}");
        }
        let plain =
            ask("GET http://u:p@a.b:81/c?d HTTP/1.1\r\nHost: a.b\r\nProxy-Connection: keep-alive\r\n\r\n")
                .unwrap();
        assert_eq!((plain.host.as_str(), plain.port), ("a.b", 81));
        assert_eq!(
            String::from_utf8(plain.plain.unwrap()).unwrap(),
            "GET /c?d HTTP/1.1\r\nHost: a.b\r\nconnection: close\r\n\r\n"
        );
        assert_eq!(ask("GET http://a.b HTTP/1.1\r\n\r\n").unwrap().port, 80);
    }
}
