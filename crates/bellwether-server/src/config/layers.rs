//! Where values are looked for: flags, then the environment, then the file, then the defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::values::{Form, Value};
use super::{ConfigFault, Flags, SETTINGS, Setting};

/// Every variable of ours begins with it.
pub(super) const PREFIX: &str = "BELLWETHER_";
/// Names the file.
const CONFIG: &str = "BELLWETHER_CONFIG";
/// Variables of this program that are no settings of the server: those of the other commands.
const OF_COMMANDS: [&str; 6] = [
    "BELLWETHER_SERVER",
    "BELLWETHER_CREDENTIAL",
    "BELLWETHER_CREDENTIAL_FILE",
    "BELLWETHER_TLS_CA",
    "BELLWETHER_TLS_CLIENT_CERT",
    "BELLWETHER_TLS_CLIENT_KEY",
];

/// Where a value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nowhere.
    Default,
    /// As this flag.
    Flag(String),
    /// In this variable.
    Variable(String),
    /// In this file and line.
    File(PathBuf, usize),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::Variable(name) => write!(f, "environment {name}"),
            Self::File(path, line) => write!(f, "{}, line {line}", path.display()),
        }
    }
}

/// See the module.
pub(super) struct Layers {
    flags: Flags,
    variables: BTreeMap<String, String>,
    file: BTreeMap<String, (String, Source)>,
}

impl Layers {
    pub(super) fn new(
        flags: &Flags,
        file: Option<PathBuf>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigFault> {
        let mut variables = our_variables(variables)?;
        let file = file.or_else(|| variables.remove(CONFIG).map(PathBuf::from));
        let file = file.as_deref().map(read_file).transpose()?.unwrap_or_default();
        Ok(Self { flags: flags.clone(), variables, file })
    }

    /// Only a file, with this text.
    #[cfg(feature = "testing")]
    pub(super) fn of_text(text: &str) -> Result<Self, ConfigFault> {
        let file = parse_file(Path::new("fuzz.toml"), text)?;
        Ok(Self { flags: Flags::default(), variables: BTreeMap::new(), file })
    }

    /// Reads one setting from the first layer that has it.
    pub(super) fn read<T: Value>(
        &self,
        setting: Option<&'static Setting>,
        found: &mut Vec<(&'static str, String, Source)>,
    ) -> Result<T, ConfigFault> {
        let setting = setting.expect("as many settings as fields: both come from one table");
        let (text, source) = self.look_up(setting);
        let Some(value) = T::parse(&text) else {
            let (name, found, allowed) = (setting.name, source.to_string(), (setting.allowed)());
            return Err(ConfigFault::Value { name, text, found, allowed });
        };
        found.push((setting.name, value.toml(), source));
        Ok(value)
    }

    fn look_up(&self, setting: &Setting) -> (String, Source) {
        if let Some(text) = self.flags.get(setting) {
            return (text.clone(), Source::Flag(setting.flag()));
        }
        if let Some(text) = self.variables.get(&setting.variable()) {
            return (text.clone(), Source::Variable(setting.variable()));
        }
        let in_file = self.file.get(setting.name).cloned();
        in_file.unwrap_or_else(|| (setting.default.into(), Source::Default))
    }
}

/// Variables with our prefix. One that is empty counts as not set.
fn our_variables(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<String, String>, ConfigFault> {
    let mut ours = BTreeMap::new();
    for (name, text) in variables {
        let name = name.to_string_lossy();
        if !name.starts_with(PREFIX) || OF_COMMANDS.contains(&&*name) {
            continue;
        }
        if name != CONFIG && !SETTINGS.iter().any(|setting| setting.variable() == name) {
            return Err(ConfigFault::Variable(name.into_owned()));
        }
        let text = text.into_string().map_err(|_| ConfigFault::NotText(name.to_string()))?;
        if !text.is_empty() {
            ours.insert(name.into_owned(), text);
        }
    }
    Ok(ours)
}

fn read_file(path: &Path) -> Result<BTreeMap<String, (String, Source)>, ConfigFault> {
    let text = std::fs::read_to_string(path).map_err(|e| ConfigFault::Unreadable {
        path: path.display().to_string(),
        why: e.to_string(),
    })?;
    parse_file(path, &text)
}

/// Reads what stands in the file.
fn parse_file(path: &Path, text: &str) -> Result<BTreeMap<String, (String, Source)>, ConfigFault> {
    let at = |offset: usize| {
        let before = text.get(..offset).unwrap_or(text);
        Source::File(path.into(), before.matches('\n').count() + 1)
    };
    let table = DeTable::parse(text).map_err(|e| ConfigFault::NotToml {
        found: at(e.span().map_or(0, |span| span.start)).to_string(),
        why: e.message().trim().replace('\n', ", "),
    })?;
    let mut found = BTreeMap::new();
    for (key, value) in table.get_ref() {
        let source = at(key.span().start);
        let key = key.get_ref();
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == &**key) else {
            return Err(ConfigFault::Key { key: key.to_string(), found: source.to_string() });
        };
        let Some(text) = as_text(setting.form, value.get_ref()) else {
            let span = value.span();
            return Err(ConfigFault::Value {
                name: setting.name,
                text: text.get(span).unwrap_or_default().into(),
                found: source.to_string(),
                allowed: format!("{}, written as {}", (setting.allowed)(), written(setting.form)),
            });
        };
        found.insert(key.to_string(), (text, source));
    }
    Ok(found)
}

/// A value as a flag would have it; `None` if it has another form.
fn as_text(form: Form, value: &DeValue<'_>) -> Option<String> {
    match (form, value) {
        (Form::Text | Form::List, DeValue::String(text)) => Some(text.to_string()),
        (Form::Number, DeValue::Integer(number)) => {
            u64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .map(|number| number.to_string())
        }
        (Form::YesNo, DeValue::Boolean(yes)) => Some(yes.to_string()),
        (Form::List, DeValue::Array(items)) => {
            let names = items.iter().map(|item| as_text(Form::Text, item.get_ref()));
            Some(names.collect::<Option<Vec<_>>>()?.join(","))
        }
        _ => None,
    }
}

fn written(form: Form) -> &'static str {
    match form {
        Form::Text => "\"text\"",
        Form::Number => "a bare number",
        Form::YesNo => "a bare true or false",
        Form::List => "[\"name\", \"name\"]",
    }
}
