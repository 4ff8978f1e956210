//! The mode of Giveway: the value of the ConfigMap [`CONFIG_MAP`] in its namespace, or else that of the chart.
//!
//! An invalid value does not change the mode. A process that starts with an invalid value does not know the last valid
//! one; it uses the more careful one of `observe` and the chart's mode, because evictions cannot be undone.

use giveway_crds::mode::{CONFIG_MAP, KEY, Mode};
use giveway_crds::wording::events;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::core::v1::ConfigMap;

/// The content of the ConfigMap, if it exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeConfig(Option<ModeConfigMap>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ModeConfigMap {
    key: ObjectKey,
    uid: SmolStr,
    /// The mode, or the reason why the value is invalid, as a sentence without its full stop.
    mode: Result<Mode, String>,
}

impl ModeConfig {
    /// Returns the name of the ConfigMap that sets the mode, or `None` if it does not exist.
    pub fn key(&self) -> Option<ObjectKey> {
        self.0.as_ref().map(|found| found.key.clone())
    }

    /// Stores the mode that a ConfigMap sets, or that it was deleted (`None`). Does nothing if `key` is not Giveway's ConfigMap for the
    /// mode. Returns true if the content has changed.
    pub fn update(&mut self, key: &ObjectKey, map: Option<&ConfigMap>) -> bool {
        if key.name != CONFIG_MAP {
            return false;
        }
        let now = map.map(|map| ModeConfigMap {
            key: key.clone(),
            uid: map.metadata.uid.clone().unwrap_or_default().into(),
            mode: match map.data.as_ref().and_then(|data| data.get(KEY)) {
                Some(text) => text.parse::<Mode>().map_err(|error| events::mode_invalid(&error)),
                None => Err(events::mode_missing()),
            },
        });
        let changed = self.0 != now;
        self.0 = now;
        changed
    }
}

/// Why the ConfigMap is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The ConfigMap.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// What is wrong, and which mode is used instead.
    pub message: String,
}

/// The mode in which this process runs: that of the ConfigMap or of the chart.
#[derive(Debug)]
pub struct Switch {
    chart: Mode,
    /// The current mode; `None` before the first call of [`Switch::follow`].
    mode: Option<Mode>,
    /// The content of the ConfigMap at the last call of [`Switch::follow`].
    seen: Option<ModeConfig>,
}

impl Switch {
    /// Creates the switch in `chart`, the mode in the values of the chart, which applies until [`Switch::follow`] is called.
    pub fn new(chart: Mode) -> Self {
        Self { chart, mode: None, seen: None }
    }

    /// Returns the current mode: that of the ConfigMap, or else that of the chart.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or(self.chart)
    }

    /// Sets the mode that the ConfigMap asks for, or that of the chart if it does not exist. An invalid ConfigMap changes no known mode.
    /// Returns a complaint if the ConfigMap has changed and is invalid.
    pub fn follow(&mut self, said: &ModeConfig) -> Option<Complaint> {
        if self.seen.as_ref() == Some(said) {
            return None;
        }
        self.seen = Some(said.clone());
        let Some(ModeConfigMap { key, uid, mode }) = &said.0 else {
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
                let message = events::mode_unknown(why, mode);
                Some(Complaint { key: key.clone(), uid: uid.clone(), message })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(data: Option<Value>) -> ModeConfig {
        let mut said = ModeConfig::default();
        let map = data.map(|data| {
            let metadata = json!({"name": CONFIG_MAP, "namespace": "own", "uid": "u"});
            serde_json::from_value::<ConfigMap>(json!({"metadata": metadata, "data": data})).unwrap()
        });
        said.update(&ObjectKey::new("own", CONFIG_MAP), map.as_ref());
        said
    }

    fn mode(text: &str) -> ModeConfig {
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
    fn an_invalid_mode_keeps_the_last_valid_one_and_is_reported_once() {
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
    fn a_process_that_starts_with_an_invalid_mode_evicts_no_pod() {
        for (chart, counts) in [(Mode::Enforce, Mode::Observe), (Mode::Off, Mode::Off)] {
            let mut switch = Switch::new(chart);
            let complaint = switch.follow(&mode("Off")).unwrap();
            assert!(complaint.message.ends_with(&format!("The mode is {counts} until then.")), "{}", complaint.message);
            assert_eq!(switch.mode(), counts);
        }
    }

    #[test]
    fn another_config_map_has_no_effect() {
        let mut said = ModeConfig::default();
        let map = serde_json::from_value::<ConfigMap>(json!({"metadata": {}, "data": {"mode": "off"}})).unwrap();
        assert!(!said.update(&ObjectKey::new("own", "another"), Some(&map)));
        assert_eq!(said, ModeConfig::default());
    }
}
