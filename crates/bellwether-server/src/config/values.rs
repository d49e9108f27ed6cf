//! Kinds of values, each with the one function that reads it.

use std::net::SocketAddr;
use std::path::PathBuf;

/// How a value is written in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Number,
    YesNo,
    /// Texts; between commas in a flag or variable.
    List,
}

/// A kind of value.
pub(crate) trait Value: Sized {
    const FORM: Form;
    /// What may be written, for people.
    fn allowed() -> String;
    /// The value, or `None` if that is not one.
    fn parse(text: &str) -> Option<Self>;
    /// As it is written in TOML.
    fn toml(&self) -> String;
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    // TOML's basic strings have the escapes of JSON's.
    serde_json::Value::from(text).to_string()
}

impl Value for PathBuf {
    const FORM: Form = Form::Text;

    fn allowed() -> String {
        "the path of a folder".into()
    }

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty() && !text.contains('\0')).then(|| text.into())
    }

    fn toml(&self) -> String {
        // It was made from text, so nothing is lost.
        quoted(&self.to_string_lossy())
    }
}

/// A file, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File(Option<PathBuf>);

impl File {
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.0.clone()
    }
}

impl Value for File {
    const FORM: Form = Form::Text;

    fn allowed() -> String {
        "the path of a file, or nothing".into()
    }

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { Some(Self(None)) } else { PathBuf::parse(text).map(Some).map(Self) }
    }

    fn toml(&self) -> String {
        self.0.as_ref().map_or_else(|| quoted(""), PathBuf::toml)
    }
}

impl Value for bool {
    const FORM: Form = Form::YesNo;

    fn allowed() -> String {
        "true or false".into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn toml(&self) -> String {
        self.to_string()
    }
}

impl Value for SocketAddr {
    const FORM: Form = Form::Text;

    fn allowed() -> String {
        "an IP address and a port, as 127.0.0.1:7400 or [::1]:7400; port 0 takes a free one".into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn toml(&self) -> String {
        quoted(&self.to_string())
    }
}

/// A whole number within limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    pub(crate) fn get(self) -> u64 {
        self.0
    }

    /// As a size; what cannot be one is more than there can be anyway.
    pub(crate) fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// As a number of 32 bits; only where the table allows no more.
    pub(crate) fn get_u32(self) -> u32 {
        const { assert!(MAX <= u32::MAX as u64) };
        self.0 as u32
    }

    /// As milliseconds.
    pub(crate) fn ms(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl<const MIN: u64, const MAX: u64> Value for Whole<MIN, MAX> {
    const FORM: Form = Form::Number;

    fn allowed() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn parse(text: &str) -> Option<Self> {
        let number = text.replace('_', "").parse().ok()?;
        (MIN..=MAX).contains(&number).then_some(Self(number))
    }

    fn toml(&self) -> String {
        self.0.to_string()
    }
}

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the folder of the store, if it has one.
    Auto,
    /// Nowhere.
    Without,
    /// Here.
    At(PathBuf),
}

impl Value for Place {
    const FORM: Form = Form::Text;

    fn allowed() -> String {
        "auto, none, or the path of a file".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "none" => Some(Self::Without),
            path => PathBuf::parse(path).map(Self::At),
        }
    }

    fn toml(&self) -> String {
        match self {
            Self::Auto => quoted("auto"),
            Self::Without => quoted("none"),
            Self::At(path) => path.toml(),
        }
    }
}

/// Whether credentials are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// No: whoever can reach the server may do everything.
    Without,
    /// Yes, of everybody but those who come by the Unix socket.
    Required,
}

impl Value for Credentials {
    const FORM: Form = Form::Text;

    fn allowed() -> String {
        "none or required".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => Some(Self::Without),
            "required" => Some(Self::Required),
            _ => None,
        }
    }

    fn toml(&self) -> String {
        quoted(match self {
            Self::Without => "none",
            Self::Required => "required",
        })
    }
}

/// Host names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts(pub(crate) Vec<String>);

impl Value for Hosts {
    const FORM: Form = Form::List;

    fn allowed() -> String {
        "host names without port, as bellwether.example.org; several between commas".into()
    }

    fn parse(text: &str) -> Option<Self> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(str::to_ascii_lowercase).collect();
        let is_name = |name: &String| {
            name.len() <= 253
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        names.iter().all(is_name).then_some(Self(names))
    }

    fn toml(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|name| quoted(name)).collect();
        format!("[{}]", names.join(", "))
    }
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogForm {
    /// A line for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Value for LogForm {
    const FORM: Form = Form::Text;

    fn allowed() -> String {
        "text or json".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    fn toml(&self) -> String {
        quoted(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}
