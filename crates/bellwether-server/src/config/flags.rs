//! The settings as flags.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::values::Form;
use super::{SETTINGS, Setting};

/// What was given as flags, as text: it is read with everything else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags(BTreeMap<&'static str, String>);

impl Flags {
    pub(super) fn get(&self, setting: &Setting) -> Option<&String> {
        self.0.get(setting.name)
    }

    #[cfg(test)]
    pub(crate) fn with(mut self, name: &'static str, text: &str) -> Self {
        self.0.insert(name, text.into());
        self
    }
}

impl Setting {
    fn arg(&self) -> Arg {
        let (help, allowed) = (self.help.trim(), (self.allowed)());
        let default = if self.default.is_empty() { "none" } else { self.default };
        let short = format!("{help} [default: {default}]");
        let long =
            format!("{help}\n\nIt is {allowed}.\n[default: {default}] [env: {}]", self.variable());
        let arg = Arg::new(self.name)
            .long(self.name.replace('_', "-"))
            .value_name(self.placeholder())
            .help(short)
            .long_help(long);
        match self.form {
            Form::YesNo => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            _ => arg.allow_hyphen_values(true),
        }
    }

    fn placeholder(&self) -> &'static str {
        match self.form {
            Form::Text => "TEXT",
            Form::Number => "NUMBER",
            Form::YesNo => "BOOL",
            Form::List => "NAMES",
        }
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, setting| command.arg(setting.arg()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in SETTINGS {
            if let Some(text) = matches.get_one::<String>(setting.name) {
                self.0.insert(setting.name, text.clone());
            }
        }
        Ok(())
    }
}
