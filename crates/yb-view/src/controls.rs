//! What pages can start and stop: the run that this process executes, and forks of recorded trials. The pages only send requests;
//! the program that starts the server handles them.

use std::collections::BTreeMap;
use std::fmt;

use yb_report::view::Markup;

use crate::guard::Guard;

/// A request about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunAction {
    /// Start no further trials and let running ones finish.
    LetFinish,
    /// Kill the running trials; they stay to do.
    Stop,
    /// Run the trials that were lost to infrastructure failures again, when the run has ended.
    RerunLost,
}

impl RunAction {
    const ALL: [Self; 3] = [Self::LetFinish, Self::Stop, Self::RerunLost];

    const fn key(self) -> &'static str {
        match self {
            Self::LetFinish => "finish",
            Self::Stop => "stop",
            Self::RerunLost => "rerun-lost",
        }
    }

    pub(crate) fn parse(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.key() == key)
    }
}

/// What running trials do now, which no file has.
#[derive(Debug, Clone, Default)]
pub struct Activity {
    /// Changes with every change.
    pub version: u64,
    /// One line for each trial, by its folder.
    pub trials: BTreeMap<String, String>,
}

/// Carries out requests of pages. Called from threads for blocking work.
pub trait Controls: Send + Sync {
    /// Returns whether this process executes a run, or did and still serves its pages.
    fn executes(&self, run: &str) -> bool;

    /// Requests something about such a run.
    ///
    /// # Errors
    /// Returns why it is not possible.
    fn request(&self, run: &str, action: RunAction) -> Result<(), String>;

    /// Returns what the running trials of such a run do now.
    fn activity(&self, run: &str) -> Activity {
        let _ = run;
        Activity::default()
    }

    /// Starts `yb` with these arguments, which does not end with this process.
    ///
    /// # Errors
    /// Returns why it is not possible.
    fn start(&self, arguments: &[String]) -> Result<(), String>;
}

impl fmt::Debug for dyn Controls + '_ {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Controls")
    }
}

/// Writes the forms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ControlForms<'a> {
    pub(crate) guard: &'a Guard,
    pub(crate) controls: Option<&'a dyn Controls>,
}

impl ControlForms<'_> {
    /// Writes the buttons of a run, if this process executes it.
    pub(crate) fn run(&self, body: &mut Markup, id: &str, active: bool, lost: usize) {
        if !self.controls.is_some_and(|controls| controls.executes(id)) {
            return;
        }
        let actions: &[(RunAction, &str)] = match (active, lost > 0) {
            (true, _) => &[
                (RunAction::LetFinish, "Let running trials finish"),
                (RunAction::Stop, "Stop now"),
                (RunAction::RerunLost, "Rerun lost trials at the end"),
            ],
            (false, true) => &[(RunAction::RerunLost, "Rerun lost trials")],
            (false, false) => return,
        };
        body.raw("<div class=\"controls\" role=\"group\" aria-label=\"Control\">");
        for (action, label) in actions {
            self.open(body, &format!("{}/control", crate::address::run(id)));
            body.raw("<input type=\"hidden\" name=\"action\"").attr("value", action.key());
            body.raw("><button class=\"chip\">").text(label).raw("</button></form>");
        }
        body.raw("</div>");
    }

    /// Writes the button that forks a trial.
    pub(crate) fn fork(&self, body: &mut Markup, target: &str, step: &str) {
        if self.controls.is_none() {
            return;
        }
        self.open(body, target);
        body.raw("<input type=\"hidden\" name=\"step\"").attr("value", step);
        body.raw("><button class=\"chip\">Run it now</button></form>");
    }

    fn open(&self, body: &mut Markup, target: &str) {
        body.raw("<form method=\"post\"").attr("action", target);
        body.raw("><input type=\"hidden\" name=\"form\"").attr("value", &self.guard.form_token()).raw(">");
    }
}
