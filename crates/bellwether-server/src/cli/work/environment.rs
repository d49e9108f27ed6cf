//! What a command is told about its message.

use std::ffi::OsString;

use bellwether::pump::Work;
use serde_json::{Map, Value};

use crate::cli::form::time;
use crate::cli::form::value::to_text;
use crate::property;

/// The kernel takes no longer string than 128 KiB; one that is near it is left out.
const VARIABLE_BYTES_MAX: usize = 100 * 1024;

/// Variables with their values. What cannot be one, because it has a NUL byte or is too long, is left
/// out.
pub(super) fn of(queue: &str, work: &Work) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            variables.push((format!("BELLWETHER_{name}"), value));
        }
    };
    put("QUEUE", Some(queue.to_owned()));
    put("SEQUENCE", Some(work.sequence().to_string()));
    put("DELIVERIES", Some(work.deliveries().to_string()));
    put("DELIVERY", Some(format!("{:032x}", work.token().to_u128())));
    let enqueued_at = time(work.received().enqueued_at());
    put("ENQUEUED_AT", enqueued_at.as_str().map(str::to_owned));
    put("MESSAGE_ID", work.id.clone());
    put("SESSION", work.session.clone());
    put("SUBJECT", work.subject.clone());
    put("CORRELATION_ID", work.correlation_id.clone());
    put("TO", work.to.clone());
    put("REPLY_TO", work.reply_to.clone());
    put("REPLY_TO_SESSION", work.reply_to_session.clone());
    put("CONTENT_TYPE", work.content_type.clone());
    let mut all = Map::new();
    for (name, value) in &work.properties {
        put(&format!("PROPERTY_{}", as_variable(name)), Some(to_text(value)));
        all.insert(name.clone(), property::to_json(value));
    }
    put("PROPERTIES", Some(Value::Object(all).to_string()));
    let fits = |(name, value): &(String, String)| {
        !value.contains('\0') && name.len() + value.len() < VARIABLE_BYTES_MAX
    };
    let variables = variables.into_iter().filter(fits);
    variables.map(|(name, value)| (name.into(), value.into())).collect()
}

/// A property's name as shells can say it. Two may become the same; JSON has them apart.
fn as_variable(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_a_variable_that_a_shell_can_say() {
        assert_eq!(as_variable("order-id"), "ORDER_ID");
        assert_eq!(as_variable("a.b=c\0d"), "A_B_C_D");
    }
}
