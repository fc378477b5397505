// SPDX-License-Identifier: Apache-2.0
//! Comparison of a program's outputs: whether two of them would mix.

use std::path::Path;

/// Whether two outputs are the same file. `-` is a file too. A device may have several outputs.
pub fn same_file(a: &Path, b: &Path) -> bool {
    if a == b && a == Path::new("-") {
        return true;
    }
    let device = |p: &Path| std::fs::metadata(p).is_ok_and(|m| !m.is_file());
    let place = |p: &Path| {
        let folder = p.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let new = || Some(std::fs::canonicalize(folder).ok()?.join(p.file_name()?));
        std::fs::canonicalize(p).ok().or_else(new).unwrap_or_else(|| p.to_owned())
    };
    a != Path::new("-") && b != Path::new("-") && !device(a) && place(a) == place(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn one_file_by_two_names() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("there");
        fs::write(&there, "").unwrap();
        std::os::unix::fs::symlink(&there, dir.path().join("link")).unwrap();
        let same = |a: &str, b: &str| same_file(&dir.path().join(a), &dir.path().join(b));
        assert!(same("new", "./new") && same("there", "link") && same_file(Path::new("-"), Path::new("-")));
        assert!(same_file(Path::new("x"), Path::new("./x")));
        assert!(!same("new", "there") && !same_file(Path::new("-"), Path::new("./-")));
        assert!(!same_file(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}
