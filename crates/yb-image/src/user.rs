//! Users of an image: what `/etc/passwd` and `/etc/group` in it say.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::ImageError;

/// The largest database that is read.
const MAX_BYTES: u64 = 4 << 20;

/// A user of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageUser {
    /// The id.
    pub uid: u32,
    /// The id of the group.
    pub gid: u32,
    /// The home directory.
    pub home: String,
}

/// Finds a user of an image: `name`, `id`, `name:group`, `id:gid`, or nothing for root.
///
/// # Errors
/// When there is none with this name.
pub fn find_user(rootfs: &Path, user: &str) -> Result<ImageUser, ImageError> {
    let unknown = || ImageError::NoUser { user: user.to_owned() };
    let (name, group) = user.split_once(':').map_or((user, None), |(name, group)| (name, Some(group)));
    let name = if name.is_empty() { "root" } else { name };
    let users = database(rootfs, "etc/passwd")?;
    let by_id = name.parse::<u32>().ok();
    let entry = users.iter().find(|fields| {
        fields[0] == name || (by_id.is_some() && fields.get(2).and_then(|id| id.parse().ok()) == by_id)
    });
    let number = |at: usize| entry.and_then(|fields| fields.get(at)?.parse::<u32>().ok());
    let uid = by_id.or_else(|| number(2)).or((name == "root").then_some(0)).ok_or_else(unknown)?;
    let gid = match group {
        None => number(3).unwrap_or(0),
        Some(group) => match group.parse() {
            Ok(gid) => gid,
            Err(_) => {
                let groups = database(rootfs, "etc/group")?;
                let entry = groups.iter().find(|fields| fields[0] == group);
                entry.and_then(|fields| fields.get(2)?.parse().ok()).ok_or_else(unknown)?
            }
        },
    };
    let home = entry.and_then(|fields| fields.get(5).cloned()).filter(|home| home.starts_with('/'));
    let home = home.unwrap_or_else(|| if uid == 0 { "/root".to_owned() } else { "/".to_owned() });
    Ok(ImageUser { uid, gid, home })
}

/// Reads a database; empty if it does not exist. Links are not followed: they could lead out of the root.
fn database(rootfs: &Path, name: &str) -> Result<Vec<Vec<String>>, ImageError> {
    let mut path: PathBuf = rootfs.to_owned();
    for part in Path::new(name).components().filter(|part| matches!(part, Component::Normal(_))) {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.is_symlink() && found.len() <= MAX_BYTES => {}
            _ => return Ok(Vec::new()),
        }
    }
    let bytes = fs::read(&path).map_err(ImageError::io(&path))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().map(|line| line.split(':').map(str::to_owned).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_id() {
        let dir = tempfile::tempdir().unwrap();
        let find = |user: &str| find_user(dir.path(), user).map(|user| (user.uid, user.gid, user.home));
        assert_eq!(find("").unwrap(), (0, 0, "/root".to_owned()));
        assert!(find("agent").unwrap_err().to_string().contains("`agent`"));
        fs::create_dir(dir.path().join("etc")).unwrap();
        fs::write(
            dir.path().join("etc/passwd"),
            "root:x:0:0::/r:/bin/sh\nagent:x:1001:1002::/home/a:/bin/sh\n",
        )
        .unwrap();
        fs::write(dir.path().join("etc/group"), "staff:x:50:\n").unwrap();
        assert_eq!(find("root").unwrap(), (0, 0, "/r".to_owned()));
        assert_eq!(find("agent").unwrap(), (1001, 1002, "/home/a".to_owned()));
        assert_eq!(find("1001").unwrap(), (1001, 1002, "/home/a".to_owned()));
        assert_eq!(find("agent:staff").unwrap(), (1001, 50, "/home/a".to_owned()));
        assert_eq!(find("7:8").unwrap(), (7, 8, "/".to_owned()));
        assert!(find("agent:none").is_err());
    }
}
