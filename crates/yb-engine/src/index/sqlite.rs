//! The index with rusqlite, which bundles SQLite on Linux and uses the system library on macOS.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Transaction, params};
use serde_json::Value;

use super::{IndexError, IndexSummary, QueryResult, file};
use crate::run::{RunDir, RunInfo, RunResults, all_runs};

/// The version of the schema. An index with another version is rebuilt.
const VERSION: i64 = 2;
/// How long to wait for another process that writes to the index.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

const TABLES: &str = "
CREATE TABLE runs (
  run TEXT PRIMARY KEY, name TEXT NOT NULL, started_at TEXT, last_at TEXT, finished INTEGER NOT NULL,
  planned INTEGER NOT NULL, done INTEGER NOT NULL, passed INTEGER NOT NULL, cost_usd REAL, gates TEXT
) WITHOUT ROWID;
CREATE TABLE trials (
  run TEXT NOT NULL, trial TEXT NOT NULL, id TEXT NOT NULL, case_name TEXT NOT NULL, variant TEXT NOT NULL,
  repeat INTEGER NOT NULL, outcome TEXT, attempts INTEGER NOT NULL, duration_ms INTEGER, cost_usd REAL, tokens INTEGER,
  turns INTEGER, model TEXT, agent_version TEXT, isolation TEXT, error TEXT, PRIMARY KEY (run, trial)
) WITHOUT ROWID;
CREATE INDEX trials_by_case ON trials (case_name, variant);
CREATE TABLE verdicts (
  run TEXT NOT NULL, trial TEXT NOT NULL, evaluator TEXT NOT NULL, status TEXT NOT NULL, message TEXT
);
CREATE INDEX verdicts_by_trial ON verdicts (run, trial);";

fn file_error(root: &Path) -> impl Fn(rusqlite::Error) -> IndexError {
    let path = file(root);
    move |error| IndexError::File { path: path.clone(), reason: error.to_string() }
}

/// Inserts a run into the index, or replaces it. An unusable index is rebuilt.
///
/// # Errors
/// Returns an error when the index is busy or rebuilding fails.
pub fn update(root: &Path, results: &RunResults) -> Result<(), IndexError> {
    if is_outdated(root) {
        return rebuild(root).map(drop);
    }
    match open(root).and_then(|mut index| put(&mut index, results)) {
        Ok(()) => Ok(()),
        // The index of the other process will be complete: the journals are the source of truth.
        Err(error) if is_busy(&error) => Err(file_error(root)(error)),
        Err(_) => rebuild(root).map(drop),
    }
}

/// Returns whether there is an index, and another version wrote it.
#[must_use]
pub fn is_outdated(root: &Path) -> bool {
    let read = || {
        let index = Connection::open_with_flags(file(root), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        index.busy_timeout(BUSY_TIMEOUT)?;
        index.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
    };
    file(root).is_file() && read().is_ok_and(|version| version != VERSION)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

/// Rebuilds the index from all runs. An unusable file is replaced.
///
/// # Errors
/// Returns an error when the runs can't be listed or the index can't be written.
pub fn rebuild(root: &Path) -> Result<IndexSummary, IndexError> {
    let runs = all_runs(root)?;
    let results: Vec<RunResults> = runs.iter().filter_map(|run| read(run.clone())).collect();
    let fill = || {
        let mut index = open(root)?;
        let all = index.transaction()?;
        all.execute_batch("DELETE FROM verdicts; DELETE FROM trials; DELETE FROM runs;")?;
        results.iter().try_for_each(|results| insert(&all, results))?;
        all.commit()
    };
    let filled = match fill() {
        Err(error) if !is_busy(&error) => {
            let _ = std::fs::remove_file(file(root));
            fill()
        }
        filled => filled,
    };
    filled.map_err(file_error(root))?;
    Ok(IndexSummary { runs: results.len(), unreadable: runs.len() - results.len() })
}

/// Reads a run's results, with the gates from its results file.
fn read(run: RunDir) -> Option<RunResults> {
    let info = RunInfo::read(run).ok()?;
    let mut results = RunResults::of(&info.plan, &info.state);
    results.gates = RunResults::read(&info.run.results()).ok().and_then(|written| written.gates);
    Some(results)
}

/// Runs a read-only query.
///
/// # Errors
/// Returns an error when the index does not exist or the query is invalid.
pub fn query(root: &Path, sql: &str) -> Result<QueryResult, IndexError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let run = || {
        let index = Connection::open_with_flags(file(root), flags)?;
        index.busy_timeout(BUSY_TIMEOUT)?;
        let mut statement = index.prepare(sql)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let width = columns.len();
        let mut found = statement.query([])?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            rows.push((0..width).map(|at| row.get_ref(at).map(as_json)).collect::<Result<_, _>>()?);
        }
        Ok(QueryResult { columns, rows })
    };
    run().map_err(file_error(root))
}

fn as_json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into_owned().into(),
    }
}

fn open(root: &Path) -> rusqlite::Result<Connection> {
    let index = Connection::open(file(root))?;
    index.busy_timeout(BUSY_TIMEOUT)?;
    // A corrupt index is rebuilt, so writes need not be synced.
    index.pragma_update(None, "synchronous", "OFF")?;
    index.pragma_update(None, "journal_mode", "MEMORY")?;
    let known: i64 = index.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if known != VERSION {
        index.execute_batch(&format!(
            "BEGIN IMMEDIATE; DROP TABLE IF EXISTS runs; DROP TABLE IF EXISTS trials; DROP TABLE IF EXISTS verdicts; {TABLES}
             PRAGMA user_version = {VERSION}; COMMIT;"
        ))?;
    }
    Ok(index)
}

fn put(index: &mut Connection, results: &RunResults) -> rusqlite::Result<()> {
    let change = index.transaction()?;
    insert(&change, results)?;
    change.commit()
}

fn insert(change: &Transaction<'_>, results: &RunResults) -> rusqlite::Result<()> {
    for table in ["trials", "verdicts"] {
        change.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [&results.run])?;
    }
    let passed = results.outcomes.get(&yb_model::outcome::Outcome::Passed).copied().unwrap_or(0);
    let gates = results.gates.as_ref().map(|report| report.status.label());
    change.execute(
        "INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            results.run,
            results.name,
            results.started_at,
            results.last_at,
            results.finished,
            results.planned as i64,
            results.done as i64,
            passed as i64,
            results.spend.total(),
            gates
        ],
    )?;
    let mut each = change.prepare(
        "INSERT INTO trials VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    let mut verdict = change.prepare("INSERT INTO verdicts VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for trial in &results.trials {
        let result = trial.result();
        for graded in result.into_iter().flat_map(|result| &result.evaluators) {
            let status = serde_json::to_value(graded.status).unwrap_or_default();
            verdict.execute(params![
                results.run,
                trial.trial,
                graded.name,
                status.as_str().unwrap_or_default(),
                graded.message
            ])?;
        }
        each.execute(params![
            results.run,
            trial.trial,
            trial.id,
            trial.case,
            trial.variant,
            trial.repeat,
            trial.outcome.map(|outcome| outcome.as_str()),
            trial.attempts.len() as i64,
            result.map(|result| result.duration_ms as i64),
            result.and_then(|result| result.spend.total()),
            result.map(|result| result.tokens as i64),
            result.and_then(|result| result.turns).map(|turns| turns as i64),
            result.and_then(|result| result.model.as_deref()),
            result.and_then(|result| result.agent_version.as_deref()),
            result.and_then(|result| result.isolation).map(|level| level.to_string()),
            result.and_then(|result| result.error.as_deref()),
        ])?;
    }
    Ok(())
}
