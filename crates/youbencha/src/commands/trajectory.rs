//! Trajectories of other tools as logs, for `yb eval` and `yb show`.

use std::path::Path;

use yb_engine::log::YouBenchaLog;

use crate::error::{CliError, ErrorKind};

/// Returns whether the argument is a file that looks like a trajectory.
pub(super) fn is_trajectory(path: &Path) -> bool {
    path.is_file() && std::fs::read(path).is_ok_and(|bytes| yb_export::is_atif(&bytes))
}

/// Reads an ATIF trajectory.
pub(super) fn read(path: &Path) -> Result<YouBenchaLog, CliError> {
    let bytes = std::fs::read(path).map_err(|error| {
        CliError::new(ErrorKind::Usage, format!("failed to read `{}`", path.display())).caused_by(error)
    })?;
    yb_export::read_atif(&bytes).map_err(|error| {
        let edge = CliError::new(ErrorKind::Usage, format!("`{}`: {error}", path.display()))
            .hint("pass an ATIF trajectory, such as one of `yb export --format atif`");
        match std::error::Error::source(&error) {
            Some(source) => edge.caused_by(source.to_string()),
            None => edge,
        }
    })
}
