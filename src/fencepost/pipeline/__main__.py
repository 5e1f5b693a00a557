"""``python -m fencepost.pipeline run|check FILE``."""

import typer

from fencepost.pipeline.commands import check_command, connector_command, run_command

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Pipelines in a TOML file.")
app.command("run")(run_command)
app.command("check")(check_command)
app.command("connector")(connector_command)

if __name__ == "__main__":
    app(prog_name="python -m fencepost.pipeline")
