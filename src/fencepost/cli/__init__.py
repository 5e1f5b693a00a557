"""The command line.

app             the subcommands, and the one place where a refusal becomes a message
commands/       a file per subcommand
options, output what commands take, and all that they print; rule_options are those of a rule
data, sources   files of rows; where tables of rules come from
binding         rules bound to the columns of a file
replaying       rows of a file through a Monitor; tally counts what fired, recorded_run checks it
damped_walk     damping once more in plain Python, which recorded runs are checked against
"""
