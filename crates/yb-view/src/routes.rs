//! Requests and their responses: addresses to pages, with the headers that every response has.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::mpsc;

use crate::address::{self, Query};
use crate::body::ResponseBody;
use crate::controls::{Activity, ControlForms, Controls, RunAction};
use crate::guard::{Access, Guard, POLICY};
use crate::live;
use crate::page::Page;
use crate::pages;
use crate::project::{Project, Unreadable};
use crate::reviews::{self, Label, Review};

/// The maximum size of a form.
const MAX_FORM: usize = 64 * 1024;
/// The size of the parts in which a file is sent.
const CHUNK: usize = 64 * 1024;

const STYLE: &str = include_str!("assets/view.css");
const SCRIPT: &str = include_str!("assets/view.js");

/// Everything that a response needs.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) guard: Guard,
    pub(crate) project: Project,
    pub(crate) controls: Option<Arc<dyn Controls>>,
}

impl Site {
    /// Returns what running trials do now, if this process executes their run.
    pub(crate) fn activity(&self, run: &str) -> Activity {
        let own = self.controls.as_ref().filter(|controls| controls.executes(run));
        own.map(|controls| controls.activity(run)).unwrap_or_default()
    }

    fn forms(&self) -> ControlForms<'_> {
        ControlForms { guard: &self.guard, controls: self.controls.as_deref() }
    }
}

type PageResponse = Response<ResponseBody>;

/// Responds to a request.
pub(crate) async fn respond(site: Arc<Site>, request: Request<Incoming>) -> PageResponse {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let access = site.guard.check(request.headers(), &query);
    let mut response = match access {
        Access::Foreign => {
            page(StatusCode::FORBIDDEN, pages::message("Refused", "The request comes from another site.", ""))
        }
        // Style and scripts are no secret, and the page below needs them.
        Access::Unknown if request.uri().path().starts_with("/assets/") => {
            asset(request.uri().path().trim_start_matches("/assets/"))
        }
        Access::Unknown => {
            let hint = "Open the address that the terminal shows; it ends with `token=…`. A new `yb view` has a new token.";
            page(
                StatusCode::FORBIDDEN,
                pages::message("Token needed", "This page is only for the one who started it.", hint),
            )
        }
        Access::Granted | Access::Introduced => {
            let query = query.with("token", None);
            match *request.method() {
                Method::GET | Method::HEAD => get(&site, request.uri().path(), query).await,
                Method::POST => post(&site, request).await,
                _ => page(
                    StatusCode::METHOD_NOT_ALLOWED,
                    pages::message("Not allowed", "Only GET and POST are.", ""),
                ),
            }
        }
    };
    let headers = response.headers_mut();
    if access == Access::Introduced
        && let Ok(cookie) = HeaderValue::from_str(&site.guard.cookie())
    {
        headers.insert(header::SET_COOKIE, cookie);
    }
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Without an origin, forms could not be told from those of other sites.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

async fn get(site: &Arc<Site>, path: &str, query: Query) -> PageResponse {
    let Some(segments) = address::segments(path) else { return missing() };
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["assets", name] => asset(name),
        ["events"] => {
            let (sender, receiver) = mpsc::channel(4);
            tokio::spawn(live::follow_list(Arc::clone(site), sender));
            events(receiver)
        }
        ["runs", id, "events"] if site.project.directory(id).is_some() => {
            let (sender, receiver) = mpsc::channel(4);
            tokio::spawn(live::follow_run(Arc::clone(site), (*id).to_owned(), sender));
            events(receiver)
        }
        ["runs", id, "trials", folder, "files", name @ ..] if !name.is_empty() => {
            let name: Vec<String> = name.iter().map(ToString::to_string).collect();
            file(site, id, folder, name).await
        }
        ["runs", id, "trials", folder, "steps"] if site.project.directory(id).is_some() => {
            steps(site, id, folder, query).await
        }
        _ => {
            let site = Arc::clone(site);
            let rendered = tokio::task::spawn_blocking(move || render(&site, &segments, &query)).await;
            rendered.unwrap_or_else(|_| {
                let text = "The page could not be rendered.";
                page(StatusCode::INTERNAL_SERVER_ERROR, pages::message("Error", text, ""))
            })
        }
    }
}

/// Renders the workspace at a step, whose tree git reads.
async fn steps(site: &Arc<Site>, id: &str, folder: &str, query: Query) -> PageResponse {
    let (from, run, trial) = (Arc::clone(site), id.to_owned(), folder.to_owned());
    let find = move || pages::steps::Steps::read(&from.project, &run, &trial);
    let found = match tokio::task::spawn_blocking(find).await {
        Ok(found) => found,
        Err(_) => return missing(),
    };
    let rendered = async {
        let steps = found?;
        let snapshot = steps.snapshot(&query).await?;
        let place = (id, folder);
        pages::steps::page(&site.project, &site.forms(), place, (&steps, &snapshot), &query)
    };
    shown(rendered.await)
}

/// Renders a page; reads files, so it blocks.
fn render(site: &Site, segments: &[String], query: &Query) -> PageResponse {
    let project = &site.project;
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let found = match parts.as_slice() {
        [] => pages::runs::page(project, query),
        ["compare"] => pages::compare::runs(project, query),
        ["trials"] => pages::compare::trials(project, query),
        ["runs", id, ..] if project.directory(id).is_none() => {
            let text = format!("There is no run `{id}`.");
            return page(
                StatusCode::NOT_FOUND,
                pages::message("No such run", &text, "It may have been removed by `yb clean`."),
            );
        }
        ["runs", id] => pages::run::page(project, (&site.forms(), &site.activity(id)), id, query),
        ["runs", id, "review"] => pages::review::page(project, id, query),
        ["runs", id, "trials", folder] => pages::trial::page(project, &site.guard, (id, folder), query),
        _ => return missing(),
    };
    shown(found)
}

fn shown(found: Result<Page, Unreadable>) -> PageResponse {
    match found {
        Ok(found) => page(StatusCode::OK, found),
        Err(reason) => {
            let hint = "Check the files of the run: `yb verify RUN`.";
            page(StatusCode::NOT_FOUND, pages::message("Can't be shown", &reason, hint))
        }
    }
}

/// Carries out what a form requests.
async fn post(site: &Arc<Site>, request: Request<Incoming>) -> PageResponse {
    let (head, body) = request.into_parts();
    let Ok(bytes) = Limited::new(body, MAX_FORM).collect().await else {
        return page(
            StatusCode::PAYLOAD_TOO_LARGE,
            pages::message("Too large", "The form is too large.", ""),
        );
    };
    let form = Query::parse(&String::from_utf8_lossy(&bytes.to_bytes()));
    if !site.guard.may_change(&head.headers, &form) {
        let hint = "Go back, reload the page and try again.";
        return page(
            StatusCode::FORBIDDEN,
            pages::message("Refused", "The form is outdated, or of another site.", hint),
        );
    }
    let Some(segments) = address::segments(head.uri.path()) else { return missing() };
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let from = Arc::clone(site);
    let act: Box<dyn FnOnce() -> Result<String, String> + Send> = match parts.as_slice() {
        ["runs", id, "trials", folder, "review"] => {
            let (id, folder) = ((*id).to_owned(), (*folder).to_owned());
            Box::new(move || save(&from, &id, &folder, &form))
        }
        ["runs", id, "trials", folder, "fork"] => {
            let (id, folder) = ((*id).to_owned(), (*folder).to_owned());
            Box::new(move || fork(&from, &id, &folder, &form))
        }
        ["runs", id, "control"] => {
            let id = (*id).to_owned();
            Box::new(move || control(&from, &id, &form))
        }
        _ => return missing(),
    };
    match tokio::task::spawn_blocking(act).await {
        Ok(Ok(target)) => redirect(&target),
        Ok(Err(reason)) => page(StatusCode::BAD_REQUEST, pages::message("Not possible", &reason, "")),
        Err(_) => missing(),
    }
}

/// Stops a run, lets it finish, or repeats its lost trials.
fn control(site: &Site, id: &str, form: &Query) -> Result<String, String> {
    let controls = site.controls.as_ref().filter(|controls| controls.executes(id));
    let controls = controls.ok_or("another process executes this run")?;
    let action = form.get("action").and_then(RunAction::parse).ok_or("no such action")?;
    controls.request(id, action)?;
    Ok(address::run(id))
}

/// Starts a run that continues from a step of a trial.
fn fork(site: &Site, id: &str, folder: &str, form: &Query) -> Result<String, String> {
    let controls = site.controls.as_ref().ok_or("these pages can't start runs")?;
    let step = form.get("step").ok_or("no step")?;
    let arguments = pages::steps::fork_arguments(&site.project, id, folder, step)?;
    controls.start(&arguments)?;
    Ok("/".to_owned())
}

fn save(site: &Site, id: &str, folder: &str, form: &Query) -> Result<String, String> {
    let run = site.project.directory(id).ok_or("no such run")?;
    let loaded = site.project.load(id)?;
    let (_, trial) = pages::trial::find(&loaded, folder)?;
    let label = form.get("label").and_then(Label::parse).ok_or("choose `pass`, `fail` or `unsure`")?;
    let evaluator = form.get("evaluator");
    if evaluator.is_some_and(|name| trial.graded.iter().all(|(known, _)| known != name)) {
        return Err("the trial has no such evaluator".to_owned());
    }
    let text = |name: &str, max: usize| form.get(name).map(|text| text.chars().take(max).collect::<String>());
    let review = Review {
        evaluator: evaluator.map(str::to_owned),
        category: text("category", 100),
        note: text("note", 4_000),
        ..Review::new(&trial.name, label)
    };
    reviews::append(&run, &review).map_err(|error| format!("failed to write the label: {error}"))?;
    if form.get("queue").is_some() {
        return pages::review::after(&site.project, id, &trial.name);
    }
    Ok(format!("{}#review", address::trial(id, &trial.name)))
}

/// Sends a file as text, in parts: a log may be large.
async fn file(site: &Arc<Site>, id: &str, folder: &str, name: Vec<String>) -> PageResponse {
    let (from, id, folder) = (Arc::clone(site), id.to_owned(), folder.to_owned());
    let find = move || {
        let path = pages::trial::file(&from.project, &id, &folder, &name)?;
        Some((File::open(&path).ok()?, path))
    };
    let Ok(Some((mut file, path))) = tokio::task::spawn_blocking(find).await else { return missing() };
    let (sender, receiver) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; CHUNK];
        while let Ok(read @ 1..) = file.read(&mut buffer) {
            if sender.blocking_send(Bytes::copy_from_slice(&buffer[..read])).is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(ResponseBody::Chunks(receiver));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(&path)));
    // Text of an agent is never a page, whatever it contains.
    let sandbox = HeaderValue::from_static("default-src 'none'; sandbox");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, sandbox);
    response
}

fn content_type(path: &Path) -> &'static str {
    let known = ["json", "jsonl", "log", "md", "patch", "txt", "xml", "yaml", "yml", "html", "diff"];
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or("txt");
    if known.contains(&end) { "text/plain; charset=utf-8" } else { "application/octet-stream" }
}

fn asset(name: &str) -> PageResponse {
    let (kind, text) = match name {
        "report.css" => ("text/css; charset=utf-8", yb_report::view::STYLE),
        "view.css" => ("text/css; charset=utf-8", STYLE),
        "report.js" => ("text/javascript; charset=utf-8", yb_report::view::SCRIPT),
        "view.js" => ("text/javascript; charset=utf-8", SCRIPT),
        _ => return missing(),
    };
    let mut response = Response::new(ResponseBody::Whole(Some(Bytes::from_static(text.as_bytes()))));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn events(receiver: mpsc::Receiver<Bytes>) -> PageResponse {
    let mut response = Response::new(ResponseBody::Chunks(receiver));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

fn page(status: StatusCode, page: Page) -> PageResponse {
    let mut response = Response::new(ResponseBody::from(page.into_html()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

fn missing() -> PageResponse {
    page(StatusCode::NOT_FOUND, pages::message("Not found", "There is no such page.", ""))
}

fn redirect(target: &str) -> PageResponse {
    let mut response = Response::new(ResponseBody::Whole(None));
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(target) = HeaderValue::from_str(target) {
        response.headers_mut().insert(header::LOCATION, target);
    }
    response
}
