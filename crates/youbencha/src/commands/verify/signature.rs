//! Signatures of runs: an SSH signature (SSHSIG) of a statement with the digests of the record, which `ssh-keygen -Y verify` can
//! check too.

use std::fs;
use std::path::{Path, PathBuf};

use ssh_key::{HashAlg, LineEnding, PrivateKey, PublicKey, SshSig};
use yb_engine::run::{RecordStatement, RunDir, VerificationProblem};

use crate::error::{CliError, ErrorKind};
use crate::files;

/// What the signature is for (`ssh-keygen -n`): a signature for another purpose is not valid here.
const NAMESPACE: &str = "youbencha-run";
/// The signed text, in the run directory.
const STATEMENT: &str = "record.txt";

/// Returns the path of the signature.
pub(super) fn file(run: &RunDir) -> PathBuf {
    run.path().join(format!("{STATEMENT}.sig"))
}

/// Writes the statement and its signature.
pub(super) fn sign(run: &RunDir, statement: &RecordStatement, key: &Path) -> Result<(), CliError> {
    let text = statement.text();
    let path = run.path().join(STATEMENT);
    files::write(run.path(), Path::new(STATEMENT), &text)?;
    let by_hand = format!("sign with `ssh-keygen -Y sign -f KEY -n {NAMESPACE} {}`", path.display());
    let wrong = |reason: String| {
        CliError::new(ErrorKind::Usage, format!("failed to sign with `{}`", key.display()))
            .caused_by(reason)
            .hint(format!("for other kinds of keys, {by_hand}"))
    };
    let key = read(key)?;
    let key = PrivateKey::from_openssh(key.trim()).map_err(|error| wrong(error.to_string()))?;
    if key.is_encrypted() {
        return Err(wrong("the key has a passphrase".to_owned()));
    }
    let signature =
        key.sign(NAMESPACE, HashAlg::Sha512, text.as_bytes()).map_err(|error| wrong(error.to_string()))?;
    let pem = signature.to_pem(LineEnding::LF).map_err(|error| wrong(error.to_string()))?;
    files::write(run.path(), Path::new(&format!("{STATEMENT}.sig")), &pem)
}

/// Checks the signature of a run. Returns the number of gradings that are newer than it, or the problem.
pub(super) fn check(
    run: &RunDir,
    statement: &RecordStatement,
    key: &Path,
) -> Result<Result<usize, VerificationProblem>, CliError> {
    let invalid = |error: ssh_key::Error| {
        CliError::new(ErrorKind::Usage, format!("not an OpenSSH public key: `{}`", key.display()))
            .caused_by(error.to_string())
    };
    let public = PublicKey::from_openssh(read(key)?.trim()).map_err(invalid)?;
    let path = file(run);
    let problem = |message: String| VerificationProblem::new(format!("{STATEMENT}.sig"), message);
    let Ok(pem) = fs::read_to_string(&path) else {
        return Ok(Err(problem("the run is not signed".to_owned())));
    };
    let signature = match SshSig::from_pem(pem.trim()) {
        Ok(signature) => signature,
        Err(error) => return Ok(Err(problem(format!("not a signature: {error}")))),
    };
    // The statement is the one of the files as they are now, not the one that was written when they were signed.
    // Gradings may follow a signature.
    let is_signed = |remaining: &usize| {
        let text = statement.before_gradings(*remaining).text();
        public.verify(NAMESPACE, text.as_bytes(), &signature).is_ok()
    };
    Ok(match (0..=statement.gradings.len()).rev().find(is_signed) {
        Some(remaining) => Ok(statement.gradings.len() - remaining),
        None => Err(problem(format!("not a signature of this record by `{}`", key.display()))),
    })
}

fn read(path: &Path) -> Result<String, CliError> {
    fs::read_to_string(path).map_err(|error| {
        CliError::new(ErrorKind::Usage, format!("failed to read `{}`", path.display())).caused_by(error)
    })
}
