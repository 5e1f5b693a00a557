"""The command line: one file per subcommand, registered in `app`."""
