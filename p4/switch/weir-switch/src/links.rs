// SPDX-License-Identifier: Apache-2.0
//! A folder of links by BMv2's names, for the front of PATH.
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Names of BMv2 and p4c, and the programs in their place.
pub const NAMES: [(&str, &str); 4] = [
    ("simple_switch", "weir-switch"),
    ("simple_switch_grpc", "weir-switch"),
    ("p4c", "weir-p4c"),
    ("p4c-bm2-ss", "weir-p4c"),
];

/// Makes the links in `folder` to the programs in the folder `programs`. A link to a program of the same name is replaced.
///
/// # Errors
/// A program is missing, a name is another file, or a link can't be made.
pub fn install(folder: &Path, programs: &Path) -> Result<(), String> {
    let shown = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    for (_, program) in NAMES {
        let program = programs.join(program);
        fs::metadata(&program).map_err(|e| shown(&program, e))?;
    }
    fs::create_dir_all(folder).map_err(|e| shown(folder, e))?;
    for (name, program) in NAMES {
        let link = folder.join(name);
        match fs::read_link(&link) {
            Ok(target) if target.file_name().is_some_and(|n| n == program) => {
                fs::remove_file(&link).map_err(|e| shown(&link, e))?;
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            _ => return Err(format!("{}: is there already, and is no link to {program}", link.display())),
        }
        symlink(programs.join(program), &link).map_err(|e| shown(&link, e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_replace_links_alone() {
        let top = std::env::temp_dir().join(format!("weir-switch-links-{}", std::process::id()));
        let (folder, old, new) = (top.join("links"), top.join("old"), top.join("new"));
        for programs in [&old, &new] {
            assert!(install(&folder, programs).unwrap_err().contains("weir-switch: "));
            fs::create_dir_all(programs).unwrap();
            for (_, program) in NAMES {
                fs::write(programs.join(program), "").unwrap();
            }
            install(&folder, programs).unwrap();
            assert_eq!(fs::read_link(folder.join("p4c")).unwrap(), programs.join("weir-p4c"));
        }
        fs::remove_file(folder.join("p4c")).unwrap();
        fs::write(folder.join("p4c"), "another compiler").unwrap();
        assert!(install(&folder, &new).unwrap_err().contains("p4c: is there already, and is no link to weir-p4c"));
        fs::remove_dir_all(&top).unwrap();
    }
}
