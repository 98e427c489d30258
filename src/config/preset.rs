//! Presets: configurations known by a name, one for each system that compacts in a way worth having.

use toml::{Table, Value};

use super::{Problem, policy::merge};

/// Name and text of every preset. To add one: a file in `config/presets`, and its line here.
pub const PRESETS: &[(&str, &str)] = &[
    ("drover", include_str!("../../config/presets/drover.toml")),
    ("drover-drop-only", include_str!("../../config/presets/drover-drop-only.toml")),
    ("drover-manual", include_str!("../../config/presets/drover-manual.toml")),
    ("hermes", include_str!("../../config/presets/hermes.toml")),
    ("oh-my-pi", include_str!("../../config/presets/oh-my-pi.toml")),
    ("openclaw", include_str!("../../config/presets/openclaw.toml")),
    ("opencode", include_str!("../../config/presets/opencode.toml")),
    ("p2", include_str!("../../config/presets/p2.toml")),
    ("phosphor", include_str!("../../config/presets/phosphor.toml")),
    ("souveraine", include_str!("../../config/presets/souveraine.toml")),
    ("souveraine-subagent", include_str!("../../config/presets/souveraine-subagent.toml")),
    ("souveraine-subconscious", include_str!("../../config/presets/souveraine-subconscious.toml")),
];

/// `table` with the presets that it names laid under it; `whole` names the one under all of it, in place of its own. Nothing where none is
/// named.
pub(super) fn under(mut table: Table, whole: Option<&str>) -> Result<Option<Table>, Problem> {
    let mut any = false;
    for list in ["route", "model"] {
        for (index, entry) in table.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
            let Some(entry) = entry.as_table_mut() else { continue };
            let Some(preset) = named(entry, &format!("{list}.{index}.preset"))? else { continue };
            let mut policy = preset.get("policy").and_then(Value::as_table).cloned().unwrap_or_default();
            merge(&mut policy, entry.get("policy").and_then(Value::as_table).unwrap_or(&Table::new()));
            entry.insert("policy".into(), policy.into());
            any = true;
        }
    }
    if let Some(name) = whole {
        table.insert("preset".into(), name.into());
    }
    if let Some(mut preset) = named(&table, "preset")? {
        // Later entries win over earlier ones, so those of the preset come first.
        let models = |table: &Table| table.get("model").and_then(Value::as_array).cloned().unwrap_or_default();
        let both: Vec<Value> = models(&preset).into_iter().chain(models(&table)).collect();
        table.insert("model".into(), both.into());
        merge(&mut preset, &table);
        (table, any) = (preset, true);
    }
    Ok(any.then_some(table))
}

/// The preset that `table` names.
fn named(table: &Table, at: &str) -> Result<Option<Table>, Problem> {
    let Some(name) = table.get("preset").and_then(Value::as_str).filter(|name| !name.is_empty()) else { return Ok(None) };
    let Some((_, text)) = PRESETS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
        return Err(Problem::value(at, format!("{name:?}"), &format!("one of {}", known.join(", "))));
    };
    text.parse().map(Some).map_err(|error: toml::de::Error| Problem::new(at, format!("{name} is not TOML\n{error}")))
}
