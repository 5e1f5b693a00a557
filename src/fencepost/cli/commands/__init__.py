"""A file per subcommand, registered in `fencepost.cli.app`."""
