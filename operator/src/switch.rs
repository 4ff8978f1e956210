//! Which mode Giveway is in: what the ConfigMap [`CONFIG_MAP`] in its namespace says, or else what the chart does.
//!
//! A value that is no mode changes nothing. A process that starts with such a value does not know what was good last; it takes
//! the more careful one of `observe` and the chart's mode, because evictions cannot be taken back.

use giveway_crds::mode::{CONFIG_MAP, KEY, Mode};
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::core::v1::ConfigMap;

/// What the ConfigMap says, while there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said(Option<Found>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    key: ObjectKey,
    uid: SmolStr,
    /// The mode, or what is wrong with it, as a sentence without its end.
    mode: Result<Mode, String>,
}

impl Said {
    /// The ConfigMap, if there is one.
    pub fn key(&self) -> Option<ObjectKey> {
        self.0.as_ref().map(|found| found.key.clone())
    }

    /// Takes in the ConfigMap of this name as it is now, or that it is gone. Returns whether that is another than before.
    pub fn take(&mut self, key: &ObjectKey, map: Option<&ConfigMap>) -> bool {
        if key.name != CONFIG_MAP {
            return false;
        }
        let now = map.map(|map| Found {
            key: key.clone(),
            uid: map.metadata.uid.clone().unwrap_or_default().into(),
            mode: match map.data.as_ref().and_then(|data| data.get(KEY)) {
                Some(text) => text.parse().map_err(|error| format!("data.{KEY}: {error}")),
                None => Err(format!("data.{KEY}: must be set, to enforce, observe or off")),
            },
        });
        let changed = self.0 != now;
        self.0 = now;
        changed
    }
}

/// What is wrong with the ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The ConfigMap.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// What is wrong, and what counts instead.
    pub message: String,
}

/// The switch.
#[derive(Debug)]
pub struct Switch {
    chart: Mode,
    /// What counts; none before the first look.
    mode: Option<Mode>,
    /// The ConfigMap as it was last looked at.
    seen: Option<Said>,
}

impl Switch {
    /// With the mode that the chart says.
    pub fn new(chart: Mode) -> Self {
        Self { chart, mode: None, seen: None }
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or(self.chart)
    }

    /// Goes by what is said now. Returns a complaint where that is new and says no mode.
    pub fn follow(&mut self, said: &Said) -> Option<Complaint> {
        if self.seen.as_ref() == Some(said) {
            return None;
        }
        self.seen = Some(said.clone());
        let Some(Found { key, uid, mode }) = &said.0 else {
            self.mode = Some(self.chart);
            return None;
        };
        match mode {
            Ok(mode) => {
                self.mode = Some(*mode);
                None
            }
            Err(why) => {
                let mode = *self.mode.get_or_insert(self.chart.max(Mode::Observe));
                let message = format!("{why}. The mode is {mode} until then.");
                Some(Complaint { key: key.clone(), uid: uid.clone(), message })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(data: Option<Value>) -> Said {
        let mut said = Said::default();
        let map = data.map(|data| {
            let metadata = json!({"name": CONFIG_MAP, "namespace": "own", "uid": "u"});
            serde_json::from_value::<ConfigMap>(json!({"metadata": metadata, "data": data})).unwrap()
        });
        said.take(&ObjectKey::new("own", CONFIG_MAP), map.as_ref());
        said
    }

    fn mode(text: &str) -> Said {
        said(Some(json!({"mode": text})))
    }

    #[test]
    fn the_config_map_counts_and_without_one_the_chart() {
        let mut switch = Switch::new(Mode::Observe);
        assert_eq!(switch.mode(), Mode::Observe);
        for (said, counts) in [(mode("off"), Mode::Off), (mode("enforce"), Mode::Enforce), (said(None), Mode::Observe)]
        {
            assert_eq!(switch.follow(&said), None);
            assert_eq!(switch.mode(), counts);
        }
    }

    #[test]
    fn a_value_that_is_no_mode_keeps_the_last_good_one_and_is_complained_of_once() {
        let mut switch = Switch::new(Mode::Enforce);
        switch.follow(&mode("off"));
        let complaint = switch.follow(&mode("of")).unwrap();
        let words = r#"data.mode: "of": must be enforce, observe or off. The mode is off until then."#;
        assert_eq!((complaint.key.name.as_str(), complaint.message.as_str()), (CONFIG_MAP, words));
        assert_eq!((switch.mode(), switch.follow(&mode("of"))), (Mode::Off, None));
        let complaint = switch.follow(&said(Some(json!({"Mode": "enforce"})))).unwrap();
        let words = "data.mode: must be set, to enforce, observe or off. The mode is off until then.";
        assert_eq!((complaint.message.as_str(), switch.mode()), (words, Mode::Off));
        switch.follow(&said(None));
        assert_eq!(switch.mode(), Mode::Enforce);
    }

    #[test]
    fn a_process_that_starts_with_a_value_that_is_no_mode_evicts_nobody() {
        for (chart, counts) in [(Mode::Enforce, Mode::Observe), (Mode::Off, Mode::Off)] {
            let mut switch = Switch::new(chart);
            let complaint = switch.follow(&mode("Off")).unwrap();
            assert!(complaint.message.ends_with(&format!("The mode is {counts} until then.")), "{}", complaint.message);
            assert_eq!(switch.mode(), counts);
        }
    }

    #[test]
    fn another_config_map_says_nothing() {
        let mut said = Said::default();
        let map = serde_json::from_value::<ConfigMap>(json!({"metadata": {}, "data": {"mode": "off"}})).unwrap();
        assert!(!said.take(&ObjectKey::new("own", "another"), Some(&map)));
        assert_eq!(said, Said::default());
    }
}
