//! Applications of Spark. The driver creates its executors after it has started, so a gang that needs all of them never
//! starts.

use crate::brief::shorten;

/// Label that Spark writes on its pods.
pub const LABEL_ROLE: &str = "spark-role";

/// Returns true if a pod with this value of the label [`LABEL_ROLE`] is the driver of a Spark application.
pub fn is_driver(role: Option<&str>) -> bool {
    role == Some("driver")
}

/// Returns the warning for the creator of a Spark driver that is a member of the gang with this name.
pub fn warning(group: &str) -> String {
    format!(
        "metadata.labels[{LABEL_ROLE}]: \"driver\": the driver creates its executors after it has started: if minCount of pod \
         group {} counts them, none of its pods starts: give the executors a pod group of their own",
        shorten(group)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_fits_into_one_of_the_protocol() {
        assert!(is_driver(Some("driver")) && !is_driver(Some("executor")) && !is_driver(None));
        assert!(warning("spark-pi").len() <= 256, "{}", warning("spark-pi").len());
    }
}
