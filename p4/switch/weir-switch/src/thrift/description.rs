// SPDX-License-Identifier: Apache-2.0
//! A program as BMv2's JSON describes it, from which clients take names, ids, keys and widths: the JSON that was loaded, or
//! one made for a program from source. The latter has no code: it can't be loaded.
use crate::p4runtime::PipelineConfig;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use weir_p4::bmv2;

/// Keys of BMv2's JSON, and of the JSON of `weir-p4c`, which has a description too.
#[derive(Deserialize)]
struct Marks {
    pipelines: Option<IgnoredAny>,
}

/// BMv2's JSON of a program.
pub fn text(config: &PipelineConfig) -> String {
    let given = config.device_text().filter(|text| bmv2::is_json(text));
    let has_tables = |text: &String| serde_json::from_str::<Marks>(text).is_ok_and(|m| m.pipelines.is_some());
    given.filter(has_tables).unwrap_or_else(|| Value::Object(bmv2::describe(&config.program)).to_string())
}

/// The id of an object by the number of its BmResourceType.
pub fn id(text: &str, kind: i32, name: &str) -> Option<i32> {
    let whole: Value = serde_json::from_str(text).ok()?;
    let list = match kind {
        0 => "tables",
        1 => "action_profiles",
        2 => "counter_arrays",
        3 => "meter_arrays",
        4 => "register_arrays",
        5 => "learn_lists",
        _ => return None,
    };
    let pipelines = whole.get("pipelines").and_then(Value::as_array).into_iter().flatten();
    let lists = pipelines.chain([&whole]).filter_map(|p| p.get(list)?.as_array()).flatten();
    let found = lists.into_iter().find(|x| x.get("name").and_then(Value::as_str) == Some(name))?;
    i32::try_from(found.get("id")?.as_i64()?).ok()
}
