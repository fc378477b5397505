// SPDX-License-Identifier: Apache-2.0
//! Options of a compilation: folders of included files, and macros.
use std::path::PathBuf;

/// As compilers' command lines have them (`-I`, `-D`, `-U`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Folders of included files, in the order in which they are searched.
    pub folders: Vec<PathBuf>,
    /// Macros that are defined before the first line.
    pub macros: Macros,
}

/// Help on `-I`, `-D` and `-U` for every tool that compiles.
pub const HELP: &str = "  -I FOLDER         another folder to look for included files in
  -D NAME[=VALUE]   defines a macro, as 1 or as the value; -U NAME takes a definition back, also that of
                    __TARGET_BMV2__, which p4c for BMv2 makes too";

impl Options {
    /// Takes `arg` if it is one of the three, with its value, which may be in it or the next of `rest`.
    ///
    /// # Errors
    /// The value is not valid.
    pub fn take(&mut self, arg: &str, rest: &mut impl Iterator<Item = String>) -> Result<bool, String> {
        let (Some(name @ ("-I" | "-D" | "-U")), Some(value)) = (arg.get(..2), arg.get(2..)) else {
            return Ok(false);
        };
        let value = match value {
            "" => rest.next().ok_or_else(|| match name {
                "-I" => "-I needs a folder".to_string(),
                _ => format!("{name} needs the name of a macro"),
            })?,
            v => v.to_string(),
        };
        match name {
            "-I" => self.folders.push(PathBuf::from(value)),
            "-D" => self.macros.define(&value)?,
            _ => self.macros.undefine(&value)?,
        }
        Ok(true)
    }
}

/// Macros that are there before the first line, in the order they were given: a later one wins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Macros {
    /// Directives, one a line.
    pub(crate) text: String,
}

impl Macros {
    /// `NAME`, which stands for 1, `NAME=VALUE` or `NAME(PARAMETERS)=VALUE`.
    ///
    /// # Errors
    /// It is no definition of a macro.
    pub fn define(&mut self, given: &str) -> Result<(), String> {
        let (head, value) = given.split_once('=').unwrap_or((given, "1"));
        let (name, parameters) = head.split_at(head.find('(').unwrap_or(head.len()));
        let well_formed = is_name(name) && (parameters.is_empty() || parameters.ends_with(')'));
        if !well_formed || given.contains(['\n', '\r']) || given.ends_with('\\') {
            let shown = given.escape_debug();
            return Err(format!("-D {shown}: must be NAME, NAME=VALUE or NAME(PARAMETERS)=VALUE, on one line"));
        }
        self.text += &format!("#define {head} {value}\n");
        Ok(())
    }

    /// As another compiler's command line has them.
    pub fn arguments(&self) -> impl Iterator<Item = String> + '_ {
        self.text.lines().filter_map(|line| match line.strip_prefix("#define ") {
            Some(d) => {
                // Behind the parameters, which may have blanks.
                let name = d.find('(').filter(|at| !d[..*at].contains(' ')).and_then(|_| d.find(')')).unwrap_or(0);
                let end = name + d[name..].find(' ')?;
                Some(format!("-D{}={}", &d[..end], &d[end + 1..]))
            }
            None => line.strip_prefix("#undef ").map(|u| format!("-U{u}")),
        })
    }

    /// The definitions that hold in the end, as [`Macros::define`] takes them, and the names without one.
    pub fn lists(&self) -> (Vec<String>, Vec<String>) {
        let mut last: Vec<(String, Option<String>)> = Vec::new();
        for argument in self.arguments() {
            let (kind, given) = argument.split_at(2);
            let name = given.split(['(', '=']).next().unwrap_or(given).to_string();
            last.retain(|(other, _)| *other != name);
            last.push((name, (kind == "-D").then(|| given.to_string())));
        }
        let defined = last.iter().filter_map(|(_, definition)| definition.clone()).collect();
        (defined, last.into_iter().filter(|(_, d)| d.is_none()).map(|(name, _)| name).collect())
    }

    /// # Errors
    /// It is no name.
    pub fn undefine(&mut self, name: &str) -> Result<(), String> {
        if !is_name(name) {
            return Err(format!("-U {}: must be the name of a macro", name.escape_debug()));
        }
        self.text += &format!("#undef {name}\n");
        Ok(())
    }
}

fn is_name(s: &str) -> bool {
    !s.starts_with(|c: char| c.is_ascii_digit())
        && !s.is_empty()
        && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
