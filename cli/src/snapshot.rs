//! `kubectl giveway snapshot`: writes what the planner reads of the live cluster as a v1 `List`.

use crate::anonymize::anonymize;
use crate::args::SnapshotArgs;
use crate::connect::{ClusterConnection, block_on};
use crate::error::CliError;
use crate::live;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Runs `kubectl giveway snapshot`: writes all objects that the planner reads into a file, with `--anonymize` under other names.
pub(crate) fn run(args: &SnapshotArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    let mut objects = block_on(async { live::read(&connection.api().await?).await })?;
    for note in &objects.notes {
        crate::output::note(note);
    }
    if args.anonymize {
        anonymize(&mut objects.items);
    }
    let mut list = json!({ "apiVersion": "v1", "kind": "List" });
    // Moved: the macro would copy all objects.
    list["items"] = Value::Array(objects.items);
    if args.output == Path::new("-") {
        return print(&list, &mut std::io::stdout().lock()).map_err(CliError::stdout);
    }
    let failed = |source| CliError::Write { file: args.output.display().to_string(), source };
    let mut file = std::io::BufWriter::new(std::fs::File::create(&args.output).map_err(failed)?);
    print(&list, &mut file).and_then(|()| file.flush()).map_err(failed)
}

/// Writes the List of objects to `out`, as indented JSON with a line break at the end.
fn print(list: &Value, out: &mut impl Write) -> Result<(), std::io::Error> {
    serde_json::to_writer_pretty(&mut *out, list)?;
    writeln!(out)
}
