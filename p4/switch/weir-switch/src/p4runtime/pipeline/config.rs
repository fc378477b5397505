// SPDX-License-Identifier: Apache-2.0
//! A forwarding pipeline configuration: the program's text, JSON or package in, a program with its P4Info out. Pure and
//! slow: for a thread of its own.
use super::package::{Package, package, plain_text};
use super::{adopt, p4info, state_size};
use crate::p4runtime::messages::bytes::Layout;
use crate::p4runtime::messages::error::{Res, exhausted, invalid, unimplemented};
use crate::p4runtime::proto::p4::v1::ForwardingPipelineConfig;
use crate::p4runtime::proto::p4::v1::forwarding_pipeline_config::Cookie;
use prost::bytes::Bytes;
use std::sync::Arc;
use weir_p4::bmv2;
use weir_p4::bytecode::program::Program;
use weir_p4::p4info::proto::{MatchField, P4DataTypeSpec, P4Info, match_field::MatchType};
use weir_p4::p4info::{Preambled, match_type};

/// A program and its description for controllers.
#[derive(Debug)]
pub struct Config {
    pub program: Arc<Program>,
    /// As the controller gave it; the compiler's own when it gave none.
    pub p4info: P4Info,
    pub device_config: Bytes,
    pub cookie: Option<Cookie>,
    /// Of registers and digests, in P4Info's order.
    pub registers: Vec<Layout>,
    pub digests: Vec<Layout>,
}

impl Config {
    /// Verifies a controller's configuration.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the compiler's messages, or the first point in which the P4Info does not fit.
    pub fn verify(given: ForwardingPipelineConfig, max_state_bytes: u64) -> Res<Config> {
        let package = package(&given.p4_device_config).map_err(|e| e.under("config.p4_device_config"))?;
        // All default is how controllers that leave it to the switch send it.
        let p4info = given.p4info.filter(|p| *p != P4Info::default());
        let program = compile(&package, p4info.as_ref())?;
        state_size::check_state(&program, max_state_bytes)
            .map_err(|e| exhausted(e).under("config.p4_device_config"))?;
        let mut config = Config::new(Arc::new(program), given.p4_device_config)?;
        if let Some(p4info) = p4info {
            if let Some(difference) = p4info::difference(&p4info, &config.p4info) {
                return Err(invalid(format!("does not fit the program: {difference}")).under("config.p4info"));
            }
            config.p4info = p4info;
        }
        config.cookie = given.cookie;
        Ok(config)
    }

    /// The device configuration, where it is a text.
    pub fn device_text(&self) -> Option<String> {
        plain_text(&self.device_config)
    }

    /// For a compiled program.
    ///
    /// # Errors
    /// UNIMPLEMENTED when the program has something that controllers could not be served.
    pub fn new(program: Arc<Program>, device_config: Bytes) -> Res<Config> {
        let info = &program.info;
        let layout = |what: String, spec: &Option<P4DataTypeSpec>| {
            Layout::of(spec.as_ref(), info).map_err(|e| unimplemented(format!("{what}: {e}")))
        };
        let registers = info.registers.iter().map(|r| layout(format!("register {}", r.name()), &r.type_spec));
        let registers = registers.collect::<Res<_>>()?;
        let digests = info.digests.iter().map(|d| layout(format!("digest {}", d.name()), &d.type_spec));
        let digests = digests.collect::<Res<_>>()?;
        strings(&program)?;
        let p4info = info.message();
        Ok(Config { program, p4info, device_config, cookie: None, registers, digests })
    }
}

/// The program, with the ids of a controller's P4Info.
fn compile(package: &Package, p4info: Option<&P4Info>) -> Res<Program> {
    let device_config = |m: String| invalid(m).under("config.p4_device_config");
    let json = package.files.get(&package.main).filter(|text| bmv2::is_json(text));
    if let Some(json) = json {
        let loaded = bmv2::load(json).map_err(|e| device_config(format!("the program does not load: {e}")))?;
        return match p4info {
            None => Ok(loaded.program),
            Some(p4info) => loaded
                .with_p4info(p4info)
                .map_err(|e| invalid(format!("does not fit the program: {e}")).under("config.p4info")),
        };
    }
    let mut program = package.compile().map_err(|d| device_config(format!("the program does not compile:\n{d}")))?;
    if let Some(p4info) = p4info {
        adopt::ids(p4info, Arc::make_mut(&mut program.info)).map_err(|e| e.under("config.p4info"))?;
    }
    Ok(program)
}

/// Refuses keys that are strings to controllers and match more than one value: strings have no order and no bits.
fn strings(program: &Program) -> Res<()> {
    let tables = program.info.tables.iter().map(|t| (&t.match_fields, t.name()));
    let sets = program.info.value_sets.iter().map(|v| (&v.r#match, v.name()));
    for (fields, of) in tables.chain(sets) {
        let wrong = |f: &&MatchField| {
            program.info.strings(&f.type_name).is_some()
                && !matches!(match_type(f), MatchType::Exact | MatchType::Optional)
        };
        if let Some(f) = fields.iter().find(wrong) {
            return Err(unimplemented(format!(
                "match field {} of {of} is translated to strings, which match exactly or optionally, not by {}",
                f.name,
                format!("{:?}", match_type(f)).to_lowercase()
            )));
        }
    }
    Ok(())
}
