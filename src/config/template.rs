//! Templates of summaries that are files of the user's.

use std::{env, fs, path::PathBuf, sync::Arc};

use crate::compact::summary::BUILT_IN;

/// What the template of that name says, where it is a file: in the folder where the program is started, or else the user's. Nothing for a built-in one.
pub fn file(name: &str) -> Option<Arc<str>> {
    files(name).find_map(|file| fs::read_to_string(file).ok()).map(Arc::from)
}

/// Where such a file may be, or come to be.
pub fn files(name: &str) -> impl Iterator<Item = PathBuf> {
    let file = is_name(name).then(|| format!("{name}.md"));
    file.into_iter().flat_map(|file| places().map(move |folder| folder.join(&file)))
}

/// Whether there is a template of that name.
pub fn exists(name: &str) -> bool {
    BUILT_IN.iter().any(|(known, _)| *known == name) || file(name).is_some()
}

/// The built-in ones.
pub fn names() -> String {
    BUILT_IN.map(|(name, _)| name).join(", ")
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

fn places() -> impl Iterator<Item = PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let folder = env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from).or_else(home);
    [Some(PathBuf::from(".plimsoll/templates")), folder.map(|folder| folder.join("plimsoll/templates"))].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path() {
        for no in ["", "../secret", "a/b", "a.md", "/etc/passwd"] {
            assert!(!exists(no), "{no}");
        }
        assert!(exists("headings") && file("headings-of-nobody").is_none());
    }
}
