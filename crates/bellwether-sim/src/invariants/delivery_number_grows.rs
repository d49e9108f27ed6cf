//! L2: a token is given out once, and of one message only growing ones. After a power cut a number
//! may come again, but under another incarnation.

use std::collections::BTreeMap;

use super::Invariant;
use crate::history::{Key, Record, Spot, Token, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    given_to: BTreeMap<Token, Key>,
    newest: BTreeMap<Spot, Token>,
    /// Numbers may have been lost since.
    power_cut: bool,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "L2 delivery_number_grows"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::PowerCut => self.power_cut = true,
            What::Delivered(delivery) => {
                let token = delivery.token;
                match self.given_to.insert(token, delivery.key) {
                    Some(key) if key == delivery.key => return Ok(()),
                    Some(key) => {
                        return Err(format!(
                            "{token:?} was given to {key:?} and to {:?}",
                            delivery.key
                        ));
                    }
                    None => {}
                }
                if let Some(old) = self.newest.insert(token.spot, token) {
                    let grows = token.number > old.number
                        || (self.power_cut && token.incarnation > old.incarnation);
                    if !grows {
                        return Err(format!("{token:?} came after {old:?}"));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
