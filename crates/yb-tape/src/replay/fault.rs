//! What goes wrong on purpose, and where: `3:429`, `subagent-1/2:cut`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::MAIN;
use crate::error::Error;
use crate::tape::Tape;

/// A fault at a turn of a lane. It happens once; the agent's next attempt gets the recorded answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayFault {
    /// The lane, `main` for the main thread.
    pub lane: String,
    /// The turn within the lane, from 1.
    pub turn: usize,
    /// What goes wrong.
    pub kind: ReplayFaultKind,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayFaultKind {
    /// An error status instead of the answer.
    Status {
        /// From 400 to 599.
        status: u16,
        /// What the `retry-after` header says.
        retry_after: Option<Duration>,
    },
    /// The connection is dropped in the middle of the answer.
    Cut,
    /// The answer comes so much later.
    Slow(Duration),
}

impl ReplayFault {
    /// A fault at a turn of the lane `main`.
    #[must_use]
    pub fn at(turn: usize, kind: ReplayFaultKind) -> Self {
        Self { lane: MAIN.to_owned(), turn, kind }
    }

    /// The same in another lane.
    #[must_use]
    pub fn in_lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = lane.into();
        self
    }

    pub(super) fn check(&self, tape: &Tape) -> Result<(), Error> {
        let turns = turns(tape, &self.lane);
        if (1..=turns).contains(&self.turn) {
            return Ok(());
        }
        Err(Error::NoStep { lane: self.lane.clone(), step: self.turn, turns })
    }
}

/// How many turns a lane has; 0 when there is none of that name.
pub(super) fn turns(tape: &Tape, lane: &str) -> usize {
    let lane = tape.lanes().iter().find(|known| known.name == lane);
    let turns =
        lane.into_iter().flat_map(|lane| &lane.exchanges).map(|index| tape.exchanges()[*index].turn());
    turns.max().unwrap_or(0)
}

impl fmt::Display for ReplayFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lane != MAIN {
            write!(f, "{}/", self.lane)?;
        }
        write!(f, "{}:", self.turn)?;
        match self.kind {
            ReplayFaultKind::Status { status, retry_after: None } => write!(f, "{status}"),
            ReplayFaultKind::Status { status, retry_after: Some(wait) } => {
                write!(f, "{status}={}ms", wait.as_millis())
            }
            ReplayFaultKind::Cut => f.write_str("cut"),
            ReplayFaultKind::Slow(wait) => write!(f, "slow={}ms", wait.as_millis()),
        }
    }
}

/// `[LANE/]TURN:KIND`, where the kind is a status (`529`, `429=2s` with a retry-after), `cut` or `slow=2s`.
impl FromStr for ReplayFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "not a fault: `{text}`; write `TURN:KIND` or `LANE/TURN:KIND`, with the kind `429`, `429=2s`, `529`, `500`, `cut` or `slow=2s`"
            )
        };
        let (place, kind) = text.split_once(':').ok_or_else(wrong)?;
        let (lane, turn) = place.rsplit_once('/').unwrap_or((MAIN, place));
        let turn = turn.parse().ok().filter(|turn| *turn > 0).ok_or_else(wrong)?;
        let (name, wait) = match kind.split_once('=') {
            Some((name, wait)) => (name, Some(duration(wait).ok_or_else(wrong)?)),
            None => (kind, None),
        };
        let kind = match (name, wait) {
            ("cut", None) => ReplayFaultKind::Cut,
            ("slow", Some(wait)) => ReplayFaultKind::Slow(wait),
            (status, retry_after) => {
                let status =
                    status.parse().ok().filter(|status| (400..=599).contains(status)).ok_or_else(wrong)?;
                ReplayFaultKind::Status { status, retry_after }
            }
        };
        Ok(Self { lane: lane.to_owned(), turn, kind })
    }
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_written() {
        for (text, lane, turn, kind) in [
            ("3:429", "main", 3, ReplayFaultKind::Status { status: 429, retry_after: None }),
            (
                "1:429=1.5s",
                "main",
                1,
                ReplayFaultKind::Status { status: 429, retry_after: Some(Duration::from_millis(1500)) },
            ),
            ("subagent-1/2:cut", "subagent-1", 2, ReplayFaultKind::Cut),
            ("2:slow=20ms", "main", 2, ReplayFaultKind::Slow(Duration::from_millis(20))),
        ] {
            let fault: ReplayFault = text.parse().unwrap();
            assert_eq!(fault, ReplayFault::at(turn, kind).in_lane(lane), "{text}");
            assert_eq!(fault.to_string().parse(), Ok(fault), "{text}");
        }
        for text in ["", "3", "0:cut", "x:cut", "3:200", "3:cut=1s", "3:slow", "3:429=", "3:429=1h"] {
            assert!(text.parse::<ReplayFault>().unwrap_err().contains("TURN:KIND"), "{text}");
        }
    }
}
